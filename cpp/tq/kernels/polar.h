// PolarQuant: blocks of 16 channels as a radius and 15 angles, tokens in lanes. A block is turned back into coordinates in
// registers, one product per level, and these meet the query or the weights. See tq_core/math/polar_pages.py for the bytes.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kPolarTokens = 128, kPolarLanes = kPolarTokens / kLanes;
constexpr uint32_t kPolarWide = 64 * kPolarLanes, kPolarBlock = kPolarWide + 7 * 32;

// Cosines of each level's four angles, and the sines, which are the cosines from the other end.
struct Angles {
  Four cosine[4], sine[4];
};

TQ_INLINE Angles load_angles(const float* table) {
  Angles out;
  for (uint32_t level = 0; level < 4; ++level) {
    float reversed[4];
    for (uint32_t i = 0; i < 4; ++i) reversed[i] = table[4 * level + 3 - i];
    out.cosine[level] = load_four(table + 4 * level);
    out.sine[level] = load_four(reversed);
  }
  return out;
}

// The two bits of each token that one code of levels 2 to 4 has.
template <int kRow>
TQ_INLINE U32 narrow_code(const uint8_t* block, uint32_t lanes) {
  int16_t row[kLanes];
  __builtin_memcpy(row, block + kPolarWide + 32 * kRow, sizeof row);
  return i32_as_u32(load_i16(row)) >> int(2 * lanes);
}

TQ_INLINE void split(F32& first, F32& second, F32 radius, const Angles& angles, int level, U32 code) {
  first = radius * look_up_four(angles.cosine[level], code);
  second = radius * look_up_four(angles.sine[level], code);
}

// Coordinates 2 * kPair and 2 * kPair + 1 from their radius: magnitude bits, then the sign of either.
template <int kPair>
TQ_INLINE void last_split(F32* x, F32 radius, const Angles& angles, U32 wide) {
  const U32 code = wide >> (4 * kPair);
  split(x[2 * kPair], x[2 * kPair + 1], radius, angles, 0, code);
  x[2 * kPair] = u32_as_float(float_as_u32(x[2 * kPair]) ^ ((code << 29) & splat_u32(0x80000000u)));
  x[2 * kPair + 1] = u32_as_float(float_as_u32(x[2 * kPair + 1]) ^ ((code << 28) & splat_u32(0x80000000u)));
}

// The 16 coordinates of one block for the 16 tokens of group `lanes`.
TQ_INLINE void block_coordinates(F32* x, const uint8_t* block, const uint8_t* radii, uint32_t lanes, const Angles& angles) {
  F32 r2[2], r4[4], r8[8];
  split(r2[0], r2[1], load_half_bytes(radii + 32 * lanes), angles, 3, narrow_code<6>(block, lanes));
  split(r4[0], r4[1], r2[0], angles, 2, narrow_code<4>(block, lanes));
  split(r4[2], r4[3], r2[1], angles, 2, narrow_code<5>(block, lanes));
  split(r8[0], r8[1], r4[0], angles, 1, narrow_code<0>(block, lanes));
  split(r8[2], r8[3], r4[1], angles, 1, narrow_code<1>(block, lanes));
  split(r8[4], r8[5], r4[2], angles, 1, narrow_code<2>(block, lanes));
  split(r8[6], r8[7], r4[3], angles, 1, narrow_code<3>(block, lanes));
  const U32 wide = load_row(block + 64 * lanes);
  last_split<0>(x, r8[0], angles, wide);
  last_split<1>(x, r8[1], angles, wide);
  last_split<2>(x, r8[2], angles, wide);
  last_split<3>(x, r8[3], angles, wide);
  last_split<4>(x, r8[4], angles, wide);
  last_split<5>(x, r8[5], angles, wide);
  last_split<6>(x, r8[6], angles, wide);
  last_split<7>(x, r8[7], angles, wide);
}

template <int... kPair>
TQ_INLINE F32 dot_block(F32 total, const F32* x, const float* query, Indices<kPair...>) {
  ((total = total + (splat(query[2 * kPair]) * x[2 * kPair] + splat(query[2 * kPair + 1]) * x[2 * kPair + 1])), ...);
  return total;
}

// All tokens of one page and KV head for kHeads query heads.
template <int kHeads>
TQ_KERNEL inline void score_polar_page(const uint8_t* codes, const uint8_t* radii, const Angles& angles, const float* query,
                                       uint32_t d, uint32_t count, float scale, float* scores, size_t s) {
  for (uint32_t t = 0; t < count; t += kLanes) {
    F32 total[kHeads], x[kLanes];
    for (int h = 0; h < kHeads; ++h) total[h] = splat(0.0f);
    for (uint32_t b = 0; b < d / kLanes; ++b) {
      block_coordinates(x, codes + b * kPolarBlock, radii + 2 * kPolarTokens * b, t / kLanes, angles);
      for (int h = 0; h < kHeads; ++h) total[h] = dot_block(total[h], x, query + h * d + kLanes * b, UpTo<8>());
    }
    for (int h = 0; h < kHeads; ++h) store_n(scores + h * s + t, total[h] * splat(scale), count - t);
  }
}

TQ_INLINE decltype(&score_polar_page<1>) score_polar_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return score_polar_page<4>;
    if (heads == 3) return score_polar_page<3>;
    if (heads == 2) return score_polar_page<2>;
  }
  return score_polar_page<1>;
}

TQ_KERNEL inline void score_polar(const float* query, const float* table, const uint32_t* pages,
                                  const uint32_t* layout_words, const uint8_t* pool, float* scores, uint32_t q, uint32_t d,
                                  uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset,
                                  float scale) {
  const Layout layout = read_layout(layout_words);
  const Angles angles = load_angles(table);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    for (uint32_t start = 0, p = 0; start < n_tokens; start += kPolarTokens, ++p) {
      const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
      score_polar_for(heads)(base + layout.key_codes, base + layout.key_scales, angles, query + size_t(row) * d, d,
                             smaller(kPolarTokens, n_tokens - start), scale, scores + size_t(row) * s + offset + start, s);
    }
    row += heads;
  }
}

template <int... k>
TQ_INLINE void add_weighted(float* acc, const F32* x, F32 weight, Indices<k...>) {
  (store(acc + kLanes * k, load(acc + kLanes * k) + weight * x[k]), ...);
}

// The sums of one page and KV head: lanes are kept apart through a block's tokens, then folded.
template <int kHeads>
TQ_KERNEL inline void sum_polar_page(const uint8_t* codes, const uint8_t* radii, const Angles& angles, const float* weights,
                                     size_t s, uint32_t d, uint32_t count, float* out) {
  alignas(kRowBytes) float padded[kHeads * kPolarTokens], acc[kHeads * kLanes * kLanes];
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t t = 0; t < kPolarTokens; t += kLanes)
      store(padded + h * kPolarTokens + t, load_n(weights + h * s + t, t < count ? count - t : 0, 0.0f));
  for (uint32_t b = 0; b < d / kLanes; ++b) {
    for (uint32_t i = 0; i < kHeads * kLanes * kLanes; i += kLanes) store(acc + i, splat(0.0f));
    for (uint32_t t = 0; t < count; t += kLanes) {
      F32 x[kLanes];
      block_coordinates(x, codes + b * kPolarBlock, radii + 2 * kPolarTokens * b, t / kLanes, angles);
      for (int h = 0; h < kHeads; ++h)
        add_weighted(acc + h * kLanes * kLanes, x, load(padded + h * kPolarTokens + t), UpTo<16>());
    }
    for (int h = 0; h < kHeads; ++h)
      for (uint32_t k = 0; k < kLanes; ++k) {
        float* o = out + h * d + kLanes * b + k;
        *o = *o + fold(load(acc + (h * kLanes + k) * kLanes));
      }
  }
}

TQ_INLINE decltype(&sum_polar_page<1>) sum_polar_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return sum_polar_page<4>;
    if (heads == 3) return sum_polar_page<3>;
    if (heads == 2) return sum_polar_page<2>;
  }
  return sum_polar_page<1>;
}

TQ_KERNEL inline void sum_polar(const float* weights, const float* table, const uint32_t* pages,
                                const uint32_t* layout_words, const uint8_t* pool, float* out, uint32_t q, uint32_t s,
                                uint32_t, uint32_t, uint32_t d, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const Angles angles = load_angles(table);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    for (uint32_t start = 0, p = 0; start < n_tokens; start += kPolarTokens, ++p) {
      const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
      sum_polar_for(heads)(base + layout.value_codes, base + layout.value_scales, angles,
                           weights + size_t(row) * s + offset + start, s, d, smaller(kPolarTokens, n_tokens - start),
                           out + size_t(row) * d);
    }
    row += heads;
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
