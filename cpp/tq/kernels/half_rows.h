// The recent window and the sink tokens: keys and values as plain float16 rows of a page.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE const uint8_t* half_row(const uint8_t* pool, const uint32_t* pages, const Layout& layout, uint32_t token,
                                  uint32_t kv_head, uint32_t d, uint32_t stream) {
  const size_t slot = token % layout.page_tokens;
  return pool + head_base(layout, pages[token / layout.page_tokens], kv_head) + stream + slot * d * 2;
}

TQ_KERNEL inline void score_f16(const float* query, const uint32_t* pages, const uint32_t* layout_words,
                                const uint8_t* pool, float* scores, uint32_t q, uint32_t d, uint32_t, uint32_t,
                                uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset, uint32_t first,
                                float scale) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t t = 0; t < n_tokens; ++t)
    for (uint32_t kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
      const uint8_t* key = half_row(pool, pages, layout, first + t, kv_head, d, layout.key_codes);
      for (uint32_t row = kv_head * group; row < (kv_head + 1) * group; ++row) {
        F32 total = splat(0.0f);
        for (uint32_t i = 0; i < d; i += kLanes) total = total + load(query + size_t(row) * d + i) * load_half_bytes(key + 2 * i);
        scores[size_t(row) * s + offset + t] = fold(total) * scale;
      }
    }
}

TQ_KERNEL inline void sum_f16(const float* weights, const uint32_t* pages, const uint32_t* layout_words,
                              const uint8_t* pool, float* out, uint32_t q, uint32_t s, uint32_t, uint32_t, uint32_t d,
                              uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset, uint32_t first) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t t = 0; t < n_tokens; ++t)
    for (uint32_t kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
      const uint8_t* value = half_row(pool, pages, layout, first + t, kv_head, d, layout.value_codes);
      for (uint32_t row = kv_head * group; row < (kv_head + 1) * group; ++row) {
        const F32 weight = splat(weights[size_t(row) * s + offset + t]);
        float* o = out + size_t(row) * d;
        for (uint32_t i = 0; i < d; i += kLanes) store(o + i, load(o + i) + weight * load_half_bytes(value + 2 * i));
      }
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
