// The decode step over the recent window and the sink tokens: float16 rows, the same softmax state as packed pages.
namespace tq {
namespace TQ_TARGET {

// Scores of `count` float16 key rows for kHeads query heads: each row is converted once.
template <int kHeads>
TQ_INLINE void score_half_rows(const float* query, const uint8_t* key, uint32_t count, uint32_t d, float scale,
                               float* scores) {
  for (uint32_t t = 0; t < count; ++t, key += 2 * d) {
    F32 sum[kHeads];
    for (int h = 0; h < kHeads; ++h) sum[h] = splat(0.0f);
    for (uint32_t i = 0; i < d; i += kLanes) {
      const F32 k = load_half_bytes(key + 2 * i);
      sum[0] = sum[0] + load(query + i) * k;
      if constexpr (kHeads > 1) sum[1] = sum[1] + load(query + d + i) * k;
      if constexpr (kHeads > 2) sum[2] = sum[2] + load(query + 2 * d + i) * k;
      if constexpr (kHeads > 3) sum[3] = sum[3] + load(query + 3 * d + i) * k;
    }
    for (int h = 0; h < kHeads; ++h) scores[h * kMaxPageTokens + t] = fold(sum[h]) * scale;
  }
}

// out = out * shrink + the weighted sum of `count` float16 value rows, in token order.
template <int kHeads>
TQ_INLINE void sum_half_rows(const float* weights, const float* shrink, const uint8_t* value, uint32_t count, uint32_t d,
                             float* out) {
  for (uint32_t i = 0; i < d; i += kLanes) {
    F32 sum[kHeads];
    for (int h = 0; h < kHeads; ++h) sum[h] = load(out + h * d + i) * splat(shrink[h]);
    for (uint32_t t = 0; t < count; ++t) {
      const F32 v = load_half_bytes(value + (size_t(t) * d + i) * 2);
      sum[0] = sum[0] + splat(weights[t]) * v;
      if constexpr (kHeads > 1) sum[1] = sum[1] + splat(weights[kMaxPageTokens + t]) * v;
      if constexpr (kHeads > 2) sum[2] = sum[2] + splat(weights[2 * kMaxPageTokens + t]) * v;
      if constexpr (kHeads > 3) sum[3] = sum[3] + splat(weights[3 * kMaxPageTokens + t]) * v;
    }
    for (int h = 0; h < kHeads; ++h) store(out + h * d + i, sum[h]);
  }
}

struct HalfPages {
  const uint8_t* pool;
  const uint32_t* pages;
  Layout layout;
  uint32_t d, first, end;
  float scale;
};

template <int kHeads>
TQ_KERNEL inline void attend_half_heads(const HalfPages& in, uint32_t kv_head, const float* query, float* peak,
                                        float* total, float* out) {
  const uint32_t per = in.layout.page_tokens;
  for (uint32_t at = in.first; at < in.end;) {
    const uint32_t count = smaller(per - at % per, in.end - at), padded = (count + kLanes - 1) / kLanes * kLanes;
    alignas(kRowBytes) float scores[kHeads * kMaxPageTokens], shrink[kHeads];
    score_half_rows<kHeads>(query, half_row(in.pool, in.pages, in.layout, at, kv_head, in.d, in.layout.key_codes), count,
                            in.d, in.scale, scores);
    soften<kHeads>(scores, kMaxPageTokens, 0, count, padded, peak, total, shrink);
    sum_half_rows<kHeads>(scores, shrink, half_row(in.pool, in.pages, in.layout, at, kv_head, in.d, in.layout.value_codes),
                          count, in.d, out);
    at += count;
  }
}

TQ_INLINE decltype(&attend_half_heads<1>) attend_half_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return attend_half_heads<4>;
    if (heads == 3) return attend_half_heads<3>;
    if (heads == 2) return attend_half_heads<2>;
  }
  return attend_half_heads<1>;
}

// The same over float16 rows, tokens first .. first + n_tokens - 1, page by page.
TQ_KERNEL inline void attend_half(const float* query, const uint32_t* pages, const uint32_t* layout_words,
                                  const uint8_t* pool, float* peak, float* total, float* out, uint32_t q, uint32_t d,
                                  uint32_t, uint32_t, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t first,
                                  float scale) {
  const HalfPages in{pool, pages, read_layout(layout_words), d, first, first + n_tokens, scale};
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    attend_half_for(heads)(in, kv_head, query + size_t(row) * d, peak + row, total + row, out + size_t(row) * d);
    row += heads;
  }
}

// Queries of t tokens, each over its own slots of the same pages: see attend_packed_each.
TQ_KERNEL inline void attend_half_each(const float* query, const uint32_t* pages, const uint32_t* layout_words,
                                       const uint8_t* pool, const uint32_t* spans, float* peak, float* total, float* out,
                                       uint32_t q, uint32_t d, uint32_t p, uint32_t b, uint32_t t, uint32_t n_kv_heads,
                                       float scale) {
  const uint32_t heads = q / t;
  for (uint32_t i = 0; i < t; ++i) {
    const size_t row = size_t(i) * heads;
    attend_half(query + row * d, pages, layout_words, pool, peak + row, total + row, out + row * d, heads, d, p, b,
                n_kv_heads, spans[2 * i + 1], spans[2 * i], scale);
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
