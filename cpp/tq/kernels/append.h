// Encoding straight into pages. Each token's codes replace what its slot held, bit by bit, so that
// appending one token or a whole page leaves the same bytes.
namespace tq {
namespace TQ_TARGET {

// Bits [8 * kRow, 8 * kRow + 8) of the byte columns that a token's four quads of codes fill in half kHalf of a tile, as
// one word; `mask` gets 1 wherever a bit is theirs.
template <int kBits, int kHalf, int kRow>
TQ_INLINE uint32_t row_of_quads(const uint32_t* quads, uint32_t& mask) {
  uint32_t word = 0;
  mask = 0;
  for (int quad = 0; quad < 4; ++quad) {
    const int at = kBits * (4 * kHalf + quad) - 8 * kRow, end = at + kBits;  // within this row's eight bits
    if (end <= 0 || at >= 8) continue;
    const int skip = at < 0 ? -at : 0, kept = (end > 8 ? 8 : end) - (at < 0 ? 0 : at), to = at < 0 ? 0 : at;
    const uint32_t ours = 0x01010101u * ((1u << kept) - 1);
    word |= ((quads[quad] >> skip) & ours) << to;
    mask |= ours << to;
  }
  return word;
}

template <int kBits, int kHalf, int kRow>
TQ_INLINE void pack_row(uint8_t* column, const uint32_t* quads) {
  uint32_t mask, old;
  const uint32_t word = row_of_quads<kBits, kHalf, kRow>(quads, mask);
  __builtin_memcpy(&old, column + kRow * kRowBytes, 4);
  old = (old & ~mask) | word;
  __builtin_memcpy(column + kRow * kRowBytes, &old, 4);
}

// One group of a key: `column` is the token's lane of the tile's rows.
template <int kBits>
TQ_INLINE void pack_quads(uint8_t* column, const uint8_t* codes, uint32_t half) {
  uint32_t quads[4];
  __builtin_memcpy(quads, codes, 16);
  if (half == 0) {
    pack_row<kBits, 0, 0>(column, quads);
    if constexpr (kBits > 2) pack_row<kBits, 0, 1>(column, quads);
  } else {
    pack_row<kBits, 1, kBits / 2>(column, quads);
    if constexpr (kBits > 2) pack_row<kBits, 1, kBits / 2 + 1>(column, quads);
  }
}

template <int kBits, int kHalf, int... kRow>
TQ_INLINE void pack_rows(uint8_t* column, const uint8_t* codes, Indices<kRow...>) {
  uint32_t quads[4];
  __builtin_memcpy(quads, codes, 16);
  (pack_row<kBits, kHalf, kBits * kHalf / 2 + kRow>(column, quads), ...);
}

// Two groups' level numbers to pair codes, at the first one's place.
TQ_INLINE void join_pairs(uint8_t* codes, const uint8_t* widths, uint32_t groups) {
  for (uint32_t g = 0; g < groups; ++g)
    for (uint32_t c = kLanes * g; widths[g] > 4 && c < kLanes * (g + 1); ++c)
      codes[c] = uint8_t(pair_code(codes[c], codes[c + kLanes], widths[g]));
}

// A token's codes into its tile: keys have tokens in lanes, four channels per lane.
TQ_INLINE void pack_key(uint8_t* tile, const uint8_t* codes, const uint8_t* widths, uint32_t groups, uint32_t slot) {
  const uint32_t half = slot / kLanes % 2;
  uint8_t* column = tile + 4 * (slot % kLanes);
  for (uint32_t g = 0; g < groups; column += widths[g] * kRowBytes, ++g) {
    if (widths[g] > 4 || widths[g] == 0) {
      if (widths[g] == 5) half ? pack_rows<5, 1>(column, codes + kLanes * g, UpTo<3>()) : pack_rows<5, 0>(column, codes + kLanes * g, UpTo<3>());
      if (widths[g] == 7) half ? pack_rows<7, 1>(column, codes + kLanes * g, UpTo<4>()) : pack_rows<7, 0>(column, codes + kLanes * g, UpTo<4>());
    } else if (widths[g] == 4) {
      pack_quads<4>(column, codes + kLanes * g, half);
    } else if (widths[g] == 3) {
      pack_quads<3>(column, codes + kLanes * g, half);
    } else if (widths[g] == 1) {
      pack_quads<1>(column, codes + kLanes * g, half);
    } else {
      pack_quads<2>(column, codes + kLanes * g, half);
    }
  }
}

// Values have channels in lanes, the token in one byte of each: bits [at, at + bits) of that byte column.
TQ_INLINE void pack_value(uint8_t* tile, const uint8_t* codes, const uint8_t* widths, uint32_t groups, uint32_t slot) {
  const uint32_t slice = slot / 4 % 8, byte = 8 * (slot % 4);
  for (uint32_t g = 0; g < groups; tile += widths[g] * kRowBytes, ++g) {
    if (widths[g] == 0) continue;
    const uint32_t bits = widths[g], at = bits * slice, shift = at % 8, kept = smaller(bits, 8 - shift);
    const U32 word = load_u8(codes + kLanes * g) << int(byte);
    uint8_t* row = tile + at / 8 * kRowBytes;
    const uint32_t low = ((1u << kept) - 1) << (shift + byte);
    store_row(row, (load_row(row) & splat_u32(~low)) | ((word << int(shift)) & splat_u32(low)));
    if (kept == bits) continue;
    const uint32_t high = ((1u << (bits - kept)) - 1) << byte;
    row += kRowBytes;
    store_row(row, (load_row(row) & splat_u32(~high)) | ((word >> int(kept)) & splat_u32(high)));
  }
}

// The float16 mean of `count` tokens' rows, each h heads of d channels apart: what their page's keys are stored without.
TQ_INLINE void write_centre(uint8_t* centre, const float* x, uint32_t count, uint32_t h, uint32_t d) {
  const float share = 1.0f / float(count);
  for (uint32_t c = 0; c < d; ++c) {
    float total = 0.0f;
    for (uint32_t t = 0; t < count; ++t) total = total + x[size_t(t) * h * d + c];
    const uint16_t half = to_half(total * share);
    __builtin_memcpy(centre + 2 * c, &half, 2);
  }
}

template <bool kKeys>
TQ_INLINE void append(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                      const uint8_t* levels, const float* book_scale, const float* boundaries, const uint32_t* pages,
                      const uint32_t* layout_words, uint8_t* pool, uint32_t n, uint32_t h, uint32_t d, uint32_t m,
                      uint32_t groups, uint32_t norm_mode, uint32_t first, uint32_t centre_tokens) {
  const Layout layout = read_layout(layout_words);
  const uint32_t stride = tile_bytes(widths, groups);
  uint8_t codes[kMaxHeadDim];
  alignas(kRowBytes) float centred[kMaxHeadDim];
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t page = (first + i) / layout.page_tokens, slot = (first + i) % layout.page_tokens;
    for (uint32_t head = 0; head < h; ++head) {
      const float* row = x + (size_t(i) * h + head) * d;
      uint8_t* base = pool + head_base(layout, pages[page], head);
      if (centre_tokens) {
        uint8_t* centre = base + layout.key_centres;
        if (slot == 0) write_centre(centre, row, centre_tokens, h, d);
        for (uint32_t c = 0; c < d; c += kLanes) store(centred + c, load(row + c) - load_half_bytes(centre + 2 * c));
        row = centred;
      }
      const uint16_t scale = encode_row(row, signs, hadamard, widths, levels, book_scale,
                                        boundaries, d, m, norm_mode, codes);
      join_pairs(codes, widths, groups);
      __builtin_memcpy(base + (kKeys ? layout.key_scales : layout.value_scales) + 2 * slot, &scale, 2);
      uint8_t* tile = base + (kKeys ? layout.key_codes : layout.value_codes) + size_t(slot / kTileTokens) * stride;
      if (kKeys) {
        pack_key(tile, codes, widths, groups, slot);
      } else {
        pack_value(tile, codes, widths, groups, slot);
      }
    }
  }
}

TQ_KERNEL inline void append_keys(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                                  const uint8_t* levels, const float* book_scale, const float* boundaries,
                                  const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t n, uint32_t h,
                                  uint32_t d, uint32_t m, uint32_t g, uint32_t, uint32_t, uint32_t, uint32_t norm_mode,
                                  uint32_t first, uint32_t centre_tokens) {
  append<true>(x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, n, h, d, m, g, norm_mode,
               first, centre_tokens);
}

TQ_KERNEL inline void append_values(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                                    const uint8_t* levels, const float* book_scale, const float* boundaries,
                                    const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t n, uint32_t h,
                                    uint32_t d, uint32_t m, uint32_t g, uint32_t, uint32_t, uint32_t, uint32_t norm_mode,
                                    uint32_t first) {
  append<false>(x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, n, h, d, m, g,
                norm_mode, first, 0);
}

}  // namespace TQ_TARGET
}  // namespace tq
