// Attention over plain float16 keys and values, written to be fast and nothing else: the bar that a compressed cache
// must clear. Every row is read once for all query heads of its KV head, products and sums are fused, the stream
// is prefetched. It is outside the parity contract: its last bits depend on the target.
//
// Layout, per KV head: keys in blocks of 32 tokens, tokens in lanes ([block][channel][32]); values in blocks of 128
// tokens and 64 channels, channels in lanes ([block][channels / 64][128][64]). Tokens are a multiple of 128.
namespace tq_bench {
namespace TQ_TARGET {

constexpr uint32_t kBlock = 128, kAhead = 8192;

// 32 tokens in parts of kVectors registers: kHeads * kVectors sums side by side hide the latency.
template <int kHeads, int... kIndex>
TQ_INLINE void score_part(const uint16_t* keys, const float* query, uint32_t d, float scale, float* scores,
                          std::integer_sequence<int, kIndex...>) {
  Wide sums[kHeads * kVectors] = {};
  for (uint32_t j = 0; j < d; ++j, keys += 32) {
    __builtin_prefetch(reinterpret_cast<const char*>(keys) + kAhead);
    Wide row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = widen(keys + v * kWidth);
    ((sums[kIndex] = fused(row[kIndex % kVectors], every(query[(kIndex / kVectors) * d + j]), sums[kIndex])), ...);
  }
  for (int i = 0; i < kHeads * kVectors; ++i)
    put(scores + (i / kVectors) * kBlock + (i % kVectors) * kWidth, sums[i] * every(scale));
}

// kValueVectors registers of channels for all heads at once, over 128 tokens.
template <int kHeads, int... kIndex>
TQ_INLINE void sum_part(const uint16_t* values, const float* weights, const float* shrink, float* out, uint32_t d,
                        std::integer_sequence<int, kIndex...>) {
  Wide sums[kHeads * kValueVectors];
  ((sums[kIndex] = get(out + (kIndex / kValueVectors) * d + (kIndex % kValueVectors) * kWidth) *
                   every(shrink[kIndex / kValueVectors])), ...);
  for (uint32_t t = 0; t < kBlock; ++t, values += 64) {
    for (int line = 0; line < 64; line += 32) __builtin_prefetch(reinterpret_cast<const char*>(values + line) + kAhead);
    Wide row[kValueVectors];
    for (int v = 0; v < kValueVectors; ++v) row[v] = widen(values + v * kWidth);
    ((sums[kIndex] = fused(row[kIndex % kValueVectors], every(weights[(kIndex / kValueVectors) * kBlock + t]), sums[kIndex])), ...);
  }
  ((put(out + (kIndex / kValueVectors) * d + (kIndex % kValueVectors) * kWidth, sums[kIndex])), ...);
}

template <int kHeads>
TQ_KERNEL inline void half_heads(const float* query, const uint16_t* keys, const uint16_t* values, float* out, uint32_t d,
                                 uint32_t n_tokens, float scale) {
  float scores[kHeads * kBlock], peak[kHeads], total[kHeads], shrink[kHeads];
  for (int h = 0; h < kHeads; ++h) peak[h] = -3.0e38f, total[h] = 0.0f;
  for (uint32_t i = 0; i < kHeads * d; ++i) out[i] = 0.0f;
  for (uint32_t start = 0; start < n_tokens; start += kBlock) {
    for (uint32_t t = 0; t < kBlock; t += kVectors * kWidth)
      score_part<kHeads>(keys + size_t(start + t) / 32 * 32 * d + t % 32, query, d, scale, scores + t,
                         std::make_integer_sequence<int, kHeads * kVectors>());
    tq::TQ_TARGET::soften<kHeads>(scores, kBlock, 0, kBlock, kBlock, peak, total, shrink);
    for (uint32_t c = 0; c < d; c += kValueVectors * kWidth)
      sum_part<kHeads>(values + size_t(start) * d + size_t(c / 64) * kBlock * 64 + c % 64, scores, shrink, out + c, d,
                       std::make_integer_sequence<int, kHeads * kValueVectors>());
  }
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t i = 0; i < d; ++i) out[h * d + i] *= 1.0f / total[h];
}

// query (q, d); keys and values (layers, n_kv_heads, n_tokens * d) in the layout above; out (q, d). KV heads are dealt to
// `threads`; up to four query heads share a pass.
inline void half_attend(uint32_t calls, uint32_t first, uint32_t layers, uint32_t threads, const float* query,
                        const uint16_t* keys, const uint16_t* values, float* out, uint32_t q, uint32_t d,
                        uint32_t n_kv_heads, uint32_t n_tokens, float scale) {
  const uint32_t group = q / n_kv_heads;
  const size_t head = size_t(n_tokens) * d;
  repeat_parts(calls, threads, [&](uint32_t call, uint32_t part) {
    const size_t layer = (first + call) % layers * n_kv_heads;
    for (uint32_t kv = part; kv < n_kv_heads; kv += threads)
      for (uint32_t row = kv * group; row < (kv + 1) * group;) {
        const uint32_t heads = tq::smaller(4, (kv + 1) * group - row);
        auto* run = heads == 4 ? half_heads<4> : heads == 3 ? half_heads<3> : heads == 2 ? half_heads<2> : half_heads<1>;
        run(query + row * d, keys + (layer + kv) * head, values + (layer + kv) * head, out + row * d, d, n_tokens, scale);
        row += heads;
      }
  });
}

}  // namespace TQ_TARGET
}  // namespace tq_bench
