// Whole decode steps, made of the library's kernels in the order in which tq_core/codecs/turbo_step.py calls them, and
// repeated without Python in between.
namespace tq_bench {
namespace TQ_TARGET {

// The fused step of one layer. `pages` is (layers, n_pages); call i reads layer (first + i) % layers. The history is
// cut into chunks of `chunk_pages`, which are dealt to the threads.
inline void decode(uint32_t calls, uint32_t first, uint32_t layers, uint32_t threads, const float* x, const float* key_signs,
                   const float* value_signs, const float* hadamard, const uint8_t* key_widths, const uint8_t* value_widths,
                   const uint8_t* levels, const float* book_scale, const uint32_t* pages, const uint32_t* layout,
                   const uint8_t* pool, float* rotated, int16_t* query, float* step, float* peaks, float* totals,
                   float* outs, float* y, uint32_t q, uint32_t d, uint32_t m, uint32_t n_pages, uint64_t b, uint32_t n_kv_heads,
                   uint32_t n_tokens, uint32_t chunk_pages, uint32_t small, float unit, float scale, float limit) {
  namespace k = tq::TQ_TARGET;
  const uint32_t chunk_tokens = chunk_pages * layout[0], chunks = (n_tokens + chunk_tokens - 1) / chunk_tokens;
  repeat_parts(
      calls, threads,
      [&](uint32_t) {
        k::rotate(x, key_signs, hadamard, rotated, q, d, m, 0, unit);
        k::quantize_query(rotated, query, step, q, d, scale, limit);
      },
      [&](uint32_t call, uint32_t part) {
        const uint32_t* table = pages + size_t((first + call) % layers) * n_pages;
        for (uint32_t c = part; c < chunks; c += threads) {
          float *peak = peaks + c * q, *total = totals + c * q, *out = outs + size_t(c) * q * d;
          for (uint32_t i = 0; i < q; ++i) peak[i] = -__builtin_inff(), total[i] = 0.0f;
          for (uint32_t i = 0; i < q * d; ++i) out[i] = 0.0f;
          const uint32_t count = tq::smaller(chunk_tokens, n_tokens - c * chunk_tokens);
          k::attend_packed(query, step, nullptr, key_widths, value_widths, levels, book_scale, table + c * chunk_pages, layout, pool,
                           peak, total, out, q, d, 0, d / 16, 6, n_pages, uint32_t(b), n_kv_heads, count, 0, small);
          k::rotate(out, value_signs, hadamard, out, q, d, m, 1, unit);
        }
      },
      [&](uint32_t) { k::merge_states(peaks, totals, outs, nullptr, y, chunks, q, d, 0); });
}

// The float32 oracle: all scores, softmax, sums. `scores` is (q, n_tokens).
inline void decode_f32(uint32_t calls, uint32_t first, uint32_t layers, const float* x, const float* key_signs,
                       const float* value_signs, const float* hadamard, const uint8_t* key_widths,
                       const uint8_t* value_widths, const uint8_t* levels, const float* book_scale, const uint32_t* pages,
                       const uint32_t* layout, const uint8_t* pool, float* rotated, float* scores, float* out, float* y,
                       uint32_t q, uint32_t d, uint32_t m, uint32_t n_pages, uint64_t b, uint32_t n_kv_heads,
                       uint32_t n_tokens, float unit, float scale) {
  namespace k = tq::TQ_TARGET;
  repeat_parts(calls, 1, [&](uint32_t call, uint32_t) {
    const uint32_t* table = pages + size_t((first + call) % layers) * n_pages;
    k::rotate(x, key_signs, hadamard, rotated, q, d, m, 0, unit);
    k::score_keys_f32(rotated, nullptr, key_widths, levels, book_scale, table, layout, pool, scores, q, d, 0, d / 16, 6, n_pages, uint32_t(b),
                      n_tokens, n_kv_heads, n_tokens, 0, scale);
    k::softmax(scores, q, n_tokens, n_tokens);
    for (uint32_t i = 0; i < q * d; ++i) out[i] = 0.0f;
    k::sum_values_f32(scores, value_widths, levels, book_scale, table, layout, pool, out, q, n_tokens, d / 16, 6, n_pages,
                      uint32_t(b), d, n_kv_heads, n_tokens, 0);
    k::rotate(out, value_signs, hadamard, y, q, d, m, 1, unit);
  });
}

}  // namespace TQ_TARGET
}  // namespace tq_bench
