// Codes of one bit, plus and minus: tiles one bit wide, read by the passes of score_keys.h and sum_values.h. A level
// byte is the bit itself, so no table is looked up.
namespace tq {
namespace TQ_TARGET {

struct OneBit {
  uint8_t widths[kMaxGroups];
};

TQ_INLINE OneBit one_bit() {
  OneBit out;
  for (uint32_t g = 0; g < kMaxGroups; ++g) out.widths[g] = 1;
  return out;
}

alignas(16) constexpr uint8_t kNoBook[16] = {};

// kHeads rows of scores of at most 16 tokens at a time: out = (total * scale) * step, on top of what is there or not.
template <int kHeads>
TQ_INLINE void write_scores(const float* total, const uint8_t* scales, const float* step, uint32_t count, float* scores,
                            size_t s, bool add) {
  for (uint32_t t = 0; t < count; t += kLanes) {
    const F32 scale = load_half_bytes(scales + 2 * t);
    const uint32_t live = smaller(kLanes, count - t);
    for (int h = 0; h < kHeads; ++h) {
      float* at = scores + h * s + t;
      F32 out = (load(total + h * kTileTokens + t) * scale) * splat(step[h]);
      if (add) out = load_n(at, live, 0.0f) + out;
      store_n(at, out, live);
    }
  }
}

template <int kHeads>
TQ_KERNEL inline void score_signs_page(const uint8_t* base, const uint8_t* next, const Layout& layout,
                                       const PreparedQuery& query, const float* step, uint32_t count, float* scores,
                                       size_t s, bool add) {
  const uint8_t* rows = base + layout.key_codes;
  prefetch_rows(next + layout.key_scales, (2 * count + kRowBytes - 1) / kRowBytes);
  for (uint32_t slot = 0; slot < count; slot += kTileTokens) {
    const uint32_t live = smaller(kTileTokens, count - slot);
    alignas(kRowBytes) float total[kHeads * kTileTokens];
    for (uint32_t i = 0; i < kHeads * kTileTokens; i += kLanes) store(total + i, splat(0.0f));
    for (uint32_t r = 0; r < query.n_runs; ++r) {
      score_run<1, kHeads, false>(total, rows, next - base, live, query.runs[r], kNoBook, 1.0f, query.words,
                                  query.totals + r * kHeads);
      rows += query.runs[r].rows * kRowBytes;
    }
    write_scores<kHeads>(total, base + layout.key_scales + 2 * slot, step, live, scores + slot, s, add);
  }
}

template <int kHeads>
TQ_KERNEL inline void score_signs_heads(const int16_t* query, const float* step, const uint32_t* pages,
                                        const Layout& layout, const uint8_t* pool, float* scores, uint32_t d, uint32_t s,
                                        uint32_t kv_head, uint32_t n_tokens, bool add) {
  PreparedQuery prepared;
  const OneBit ones = one_bit();
  prepare_query<kHeads>(prepared, query, ones.widths, d);
  for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < n_tokens ? p + 1 : p;
    score_signs_page<kHeads>(pool + head_base(layout, pages[p], kv_head), pool + head_base(layout, pages[after], kv_head),
                             layout, prepared, step, smaller(layout.page_tokens, n_tokens - start), scores + start, s, add);
  }
}

TQ_INLINE decltype(&score_signs_heads<1>) score_signs_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return score_signs_heads<4>;
    if (heads == 3) return score_signs_heads<3>;
    if (heads == 2) return score_signs_heads<2>;
  }
  return score_signs_heads<1>;
}

TQ_KERNEL inline void score_signs(const int16_t* query, const float* step, const uint32_t* pages,
                                  const uint32_t* layout_words, const uint8_t* pool, float* scores, uint32_t q,
                                  uint32_t d, uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens,
                                  uint32_t offset, uint32_t add) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    score_signs_for(heads)(query + size_t(row) * d, step + row, pages, layout, pool, scores + size_t(row) * s + offset, d,
                           s, kv_head, n_tokens, add != 0);
    row += heads;
  }
}

// Weights of up to kHeads query heads times the page's scales, as integers.
template <int kHeads>
TQ_INLINE void prepare_weights(PreparedWeights& out, const float* weights, size_t s, const uint8_t* scales, uint32_t count,
                               uint32_t padded) {
  for (int h = 0; h < kHeads; ++h) {
    alignas(kRowBytes) float scaled[kMaxPageTokens];
    F32 most = splat(0.0f);
    for (uint32_t t = 0; t < padded; t += kLanes) {
      const F32 x = load_n(weights + h * s + t, t < count ? count - t : 0, 0.0f) * load_half_bytes(scales + 2 * t);
      most = max(most, magnitude(x));
      store(scaled + t, x);
    }
    quantize_weights(out, h, scaled, padded, lane_max(most), kIntegerMax);
  }
}

template <int kHeads>
TQ_KERNEL inline void sum_signs_heads(const float* weights, const uint32_t* pages, const Layout& layout,
                                      const uint8_t* pool, float* out, uint32_t d, uint32_t s, uint32_t kv_head,
                                      uint32_t n_tokens) {
  const float keep[kHeadsAtOnce] = {1.0f, 1.0f, 1.0f, 1.0f};
  const uint32_t groups = d / kLanes;
  for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t count = smaller(layout.page_tokens, n_tokens - start);
    const uint32_t n_tiles = (count + kTileTokens - 1) / kTileTokens;
    const uint32_t after = start + layout.page_tokens < n_tokens ? p + 1 : p;
    const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
    const uint8_t* next = pool + head_base(layout, pages[after], kv_head);
    PreparedWeights prepared;
    prepare_weights<kHeads>(prepared, weights + start, s, base + layout.value_scales, count, n_tiles * kTileTokens);
    sum_run<1, kHeads, false>(base + layout.value_codes, next - base, n_tiles, groups * kRowBytes, groups, kNoBook, 1, 1.0f,
                              prepared, keep, out, d);
  }
}

TQ_INLINE decltype(&sum_signs_heads<1>) sum_signs_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return sum_signs_heads<4>;
    if (heads == 3) return sum_signs_heads<3>;
    if (heads == 2) return sum_signs_heads<2>;
  }
  return sum_signs_heads<1>;
}

TQ_KERNEL inline void sum_signs(const float* weights, const uint32_t* pages, const uint32_t* layout_words,
                                const uint8_t* pool, float* out, uint32_t q, uint32_t s, uint32_t, uint32_t, uint32_t d,
                                uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    sum_signs_for(heads)(weights + size_t(row) * s + offset, pages, layout, pool, out + size_t(row) * d, d, s, kv_head,
                         n_tokens);
    row += heads;
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
