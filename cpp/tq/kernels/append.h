// Encoding straight into pages. Each token's codes replace what its slot held, bit by bit, so that
// appending one token or a whole page leaves the same bytes.
namespace tq {
namespace TQ_TARGET {

// Write four codes, one per byte of a lane, as slice `slice` of the byte columns at `column`.
TQ_INLINE void write_lane(uint8_t* column, uint32_t slice, uint32_t bits, uint32_t codes, uint32_t byte_mask) {
  const uint32_t at = bits * slice, shift = at % 8, kept = smaller(bits, 8 - shift);
  uint8_t* row = column + at / 8 * kRowBytes;
  uint32_t word;
  const uint32_t low = (0x01010101u * (((1u << kept) - 1) << shift)) & byte_mask;
  __builtin_memcpy(&word, row, 4);
  word = (word & ~low) | ((codes << shift) & low);
  __builtin_memcpy(row, &word, 4);
  if (kept == bits) return;
  const uint32_t high = (0x01010101u * ((1u << (bits - kept)) - 1)) & byte_mask;
  __builtin_memcpy(&word, row + kRowBytes, 4);
  word = (word & ~high) | ((codes >> kept) & high);
  __builtin_memcpy(row + kRowBytes, &word, 4);
}

// A token's codes into its tile: keys have tokens in lanes, four channels per lane.
TQ_INLINE void pack_key(uint8_t* tile, const uint8_t* codes, const uint8_t* widths, uint32_t groups, uint32_t slot) {
  const uint32_t half = slot / 16 % 2, lane = slot % 16;
  for (uint32_t g = 0; g < groups; tile += widths[g] * kRowBytes, ++g)
    for (uint32_t quad = 0; quad < 4; ++quad) {
      uint32_t word;
      __builtin_memcpy(&word, codes + 16 * g + 4 * quad, 4);
      write_lane(tile + 4 * lane, 4 * half + quad, widths[g], word, ~0u);
    }
}

// Values have channels in lanes, the token in one byte of each.
TQ_INLINE void pack_value(uint8_t* tile, const uint8_t* codes, const uint8_t* widths, uint32_t groups, uint32_t slot) {
  const uint32_t slice = slot / 4 % 8, shift = 8 * (slot % 4);
  for (uint32_t g = 0; g < groups; tile += widths[g] * kRowBytes, ++g)
    for (uint32_t lane = 0; lane < 16; ++lane)
      write_lane(tile + 4 * lane, slice, widths[g], uint32_t(codes[16 * g + lane]) << shift, 255u << shift);
}

template <bool kKeys>
TQ_INLINE void append(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                      const uint8_t* levels, const float* book_scale, const float* boundaries, const uint32_t* pages,
                      const uint32_t* layout_words, uint8_t* pool, uint32_t n, uint32_t h, uint32_t d, uint32_t m,
                      uint32_t groups, uint32_t norm_mode, uint32_t first) {
  const Layout layout = read_layout(layout_words);
  const uint32_t stride = tile_bytes(widths, groups);
  uint8_t codes[kMaxHeadDim];
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t page = (first + i) / layout.page_tokens, slot = (first + i) % layout.page_tokens;
    for (uint32_t head = 0; head < h; ++head) {
      const uint16_t scale = encode_row(x + (size_t(i) * h + head) * d, signs, hadamard, widths, levels, book_scale,
                                        boundaries, d, m, norm_mode, codes);
      uint8_t* base = pool + head_base(layout, pages[page], head);
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
                                  uint32_t first) {
  append<true>(x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, n, h, d, m, g, norm_mode,
               first);
}

TQ_KERNEL inline void append_values(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                                    const uint8_t* levels, const float* book_scale, const float* boundaries,
                                    const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t n, uint32_t h,
                                    uint32_t d, uint32_t m, uint32_t g, uint32_t, uint32_t, uint32_t, uint32_t norm_mode,
                                    uint32_t first) {
  append<false>(x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, n, h, d, m, g,
                norm_mode, first);
}

}  // namespace TQ_TARGET
}  // namespace tq
