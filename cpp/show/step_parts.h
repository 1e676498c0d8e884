// The decode step's three page functions, each over all pages without the other two: for notebook 06, no part of the
// library. Included once per target. `which` is a sum of 1 (key scan), 2 (softmax and integer weights) and 4 (value scan).
namespace tq_show {
namespace TQ_TARGET {

template <int kHeads>
inline void run_heads(uint32_t which, const tq::TQ_TARGET::PackedPages& in, uint32_t kv_head, const int16_t* query,
                      const float* step, float* peak, float* total, float* out) {
  namespace k = tq::TQ_TARGET;
  const tq::Layout& layout = in.layout;
  k::PreparedQuery prepared;
  k::prepare_query<kHeads>(prepared, query, in.key_widths, 16 * in.groups);
  // Parts that do not run leave zeros, whose cost for the parts that do is the same as any number's.
  alignas(64) float scores[kHeads * tq::kMaxPageTokens] = {}, shrink[tq::kHeadsAtOnce] = {};
  alignas(64) k::PreparedWeights weights = {};
  for (uint32_t start = 0, p = 0; start < in.end; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < in.end ? p + 1 : p;
    const uint8_t* base = in.pool + tq::head_base(layout, in.pages[p], kv_head);
    const uint8_t* next = in.pool + tq::head_base(layout, in.pages[after], kv_head);
    const uint32_t count = tq::smaller(layout.page_tokens, in.end - start);
    const uint32_t n_tiles = (count + tq::kTileTokens - 1) / tq::kTileTokens;
    if (which & 1)
      k::score_page<kHeads, false>(base, next, layout, prepared, in.levels, in.book_scale, step, count, scores,
                                   tq::kMaxPageTokens);
    if (which & 2)
      k::soften_packed<kHeads>(weights, scores, base + layout.value_scales, 0, count, n_tiles * tq::kTileTokens, in.limit, peak,
                               total, shrink);
    if (which & 4)
      k::sum_page<kHeads, false>(base, next, layout, weights, in.value_widths, in.levels, in.book_scale, in.groups, n_tiles,
                                 shrink, out);
  }
}

// Arguments as attend_packed's. The query heads of a KV head are a multiple of those that go together.
inline void attend_parts(uint32_t which, const int16_t* query, const float* step, const float*, const uint8_t* key_widths,
                         const uint8_t* value_widths, const uint8_t* levels, const float* book_scale, const uint32_t* pages,
                         const uint32_t* layout, const uint8_t* pool, float* peak, float* total, float* out, uint32_t q,
                         uint32_t d, uint32_t, uint32_t groups, uint32_t, uint32_t, uint32_t, uint32_t n_kv_heads,
                         uint32_t n_tokens, uint32_t first, uint32_t) {
  constexpr int kHeads = tq::TQ_TARGET::kHeadsInPass;
  const tq::TQ_TARGET::PackedPages in{nullptr,      pool,   pages,      tq::read_layout(layout), key_widths,
                                      value_widths, levels, book_scale, groups,                  first,
                                      first + n_tokens, tq::kIntegerMax};
  for (uint32_t row = 0; row < q; row += kHeads)
    run_heads<kHeads>(which, in, row / (q / n_kv_heads), query + row * d, step + row, peak + row, total + row, out + row * d);
}

}  // namespace TQ_TARGET
}  // namespace tq_show
