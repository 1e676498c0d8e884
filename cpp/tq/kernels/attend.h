// One decode step over pages, for one layer and all its heads, with a softmax that is carried from page to page:
// for every query head the largest logit so far (peak), the sum of 2^(logit - peak) (total), and the sum of
// values under those weights (out). Logits come in units of log 2: the caller multiplies the softmax scale by log2 e. Scratch is one page's scores, whatever the length of the history.
//
// States of disjoint parts of the history merge into one, in a fixed order, so how a long history is cut over
// threads does not change a bit.
namespace tq {
namespace TQ_TARGET {

constexpr float kLowest = -3.0e38f;

// 2^x as in lanes.exp2_f32, of several vectors at once. One step of all of them comes before the next step of any,
// since each step waits for the one before.
template <int... k>
TQ_INLINE void exp2_each(F32* x, Indices<k...>) {
  F32 r[sizeof...(k)], shifted[sizeof...(k)], y[sizeof...(k)];
  ((r[k] = max(x[k], splat(-125.0f))), ...);
  ((shifted[k] = r[k] + splat(kRoundMagic)), ...);
  ((r[k] = r[k] - (shifted[k] - splat(kRoundMagic))), ...);
  ((y[k] = splat(0.0013264727f) * r[k] + splat(0.009671513f)), ...);
  ((y[k] = y[k] * r[k] + splat(0.055507336f)), ...);
  ((y[k] = y[k] * r[k] + splat(0.24022242f)), ...);
  ((y[k] = y[k] * r[k] + splat(0.693147f)), ...);
  ((y[k] = y[k] * r[k] + splat(1.0f)), ...);
  ((y[k] = u32_as_float(float_as_u32(y[k]) + (float_as_u32(shifted[k]) << 23))), ...);
  ((x[k] = select_ge(x[k], splat(-125.0f), y[k], splat(0.0f))), ...);
}

TQ_INLINE float exp2_of(float x) {
  alignas(kRowBytes) float lanes[kLanes];
  F32 all = splat(x);
  exp2_each(&all, UpTo<1>());
  store(lanes, all);
  return lanes[0];
}

// The largest logit of each of kHeads rows of scores joins its peak; shrink is the factor by which the row's sums so far
// change. Slots outside low..count-1 become kLowest. One exponential serves all rows.
template <int kHeads>
TQ_INLINE void raise_peaks(float* scores, size_t stride, uint32_t low, uint32_t count, uint32_t padded, float* peak,
                           float* shrink) {
  alignas(kRowBytes) float change[kLanes] = {}, factor[kLanes];
  for (int h = 0; h < kHeads; ++h) {
    float* row = scores + h * stride;
    for (uint32_t t = 0; t < low; ++t) row[t] = kLowest;
    for (uint32_t t = count; t < padded; ++t) row[t] = kLowest;
    F32 most = splat(kLowest);
    for (uint32_t t = 0; t < padded; t += kLanes) most = max(most, load(row + t));
    const float top = lane_max(most) + 0.0f;  // + 0: whether a zero is negative depends on the order
    const float raised = top > peak[h] ? top : peak[h];
    change[h] = peak[h] - raised;
    peak[h] = raised;
  }
  F32 all = load(change);
  exp2_each(&all, UpTo<1>());
  store(factor, all);
  for (int h = 0; h < kHeads; ++h) shrink[h] = factor[h];
}

// Scores of one part of the history to weights 2^(score - peak), kept in place of the scores, and the states of kHeads
// rows moved on. With kScaled each weight is multiplied by its token's value scale once it is counted, and `most` is
// the largest magnitude of each row. Rows go together as far as the registers allow.
template <bool kScaled, int... k>
TQ_INLINE void soften_rows(float* scores, size_t stride, uint32_t padded, const float* peak, float* total, const float* shrink,
                           const float* value_scale, float* most, Indices<k...>) {
  const F32 top[] = {splat(peak[k])...};
  F32 sum[] = {no_weight<k>()...}, largest[] = {no_weight<k>()...};
  for (uint32_t t = 0; t < padded; t += kLanes) {
    F32 weight[] = {load(scores + k * stride + t) - top[k]...};
    exp2_each(weight, Indices<k...>());
    ((sum[k] = sum[k] + weight[k]), ...);
    if constexpr (kScaled) {
      const F32 scale = load(value_scale + t);
      ((weight[k] = weight[k] * scale), ...);
      ((largest[k] = max(largest[k], magnitude(weight[k]))), ...);
    }
    (store(scores + k * stride + t, weight[k]), ...);
  }
  ((total[k] = total[k] * shrink[k] + fold(sum[k])), ...);
  if constexpr (kScaled) ((most[k] = lane_max(largest[k])), ...);
}

template <bool kScaled, int kHeads>
TQ_INLINE void soften_all(float* scores, size_t stride, uint32_t padded, const float* peak, float* total, const float* shrink,
                          const float* value_scale, float* most) {
  if constexpr (kRegLanes == kLanes && kHeadsInPass > 1) {
    soften_rows<kScaled>(scores, stride, padded, peak, total, shrink, value_scale, most, UpTo<kHeads>());
  } else {
    for (int h = 0; h < kHeads; ++h)
      soften_rows<kScaled>(scores + h * stride, stride, padded, peak + h, total + h, shrink + h, value_scale, most + h,
                           UpTo<1>());
  }
}

template <int kHeads>
TQ_INLINE void soften(float* scores, size_t stride, uint32_t low, uint32_t count, uint32_t padded, float* peak,
                      float* total, float* shrink) {
  raise_peaks<kHeads>(scores, stride, low, count, padded, peak, shrink);
  soften_all<false, kHeads>(scores, stride, padded, peak, total, shrink, nullptr, nullptr);
}

// The same for a packed page, on to integers.
template <int kHeads>
TQ_KERNEL inline void soften_packed(PreparedWeights& weights, float* scores, const uint8_t* scales, uint32_t low, uint32_t count,
                                    uint32_t padded, float limit, float* peak, float* total, float* shrink) {
  alignas(kRowBytes) float value_scale[kMaxPageTokens];
  float most[kHeads];
  for (uint32_t t = 0; t < padded; t += kLanes) store(value_scale + t, load_half_bytes(scales + 2 * t));
  raise_peaks<kHeads>(scores, kMaxPageTokens, low, count, padded, peak, shrink);
  soften_all<true, kHeads>(scores, kMaxPageTokens, padded, peak, total, shrink, value_scale, most);
  for (int h = 0; h < kHeads; ++h) quantize_weights(weights, h, scores + h * kMaxPageTokens, padded, most[h], limit);
}

struct PackedPages {
  const float* centre_query;  // of all query heads, or null
  const uint8_t* pool;
  const uint32_t* pages;
  Layout layout;
  const uint8_t *key_widths, *value_widths, *levels;
  const float* book_scale;
  uint32_t groups, first, end;  // slots first..end-1
  float limit;  // of the integers that weights become
};

// kHeads query heads of one KV head over all pages.
template <int kHeads, bool kSmall>
TQ_KERNEL inline void attend_heads(const PackedPages& in, uint32_t row, uint32_t kv_head, const int16_t* query, const float* step,
                                   float* peak, float* total, float* out) {
  const Layout& layout = in.layout;
  const uint32_t d = 16 * in.groups;
  PreparedQuery prepared;
  prepare_query<kHeads>(prepared, query, in.key_widths, d);
  alignas(kRowBytes) float scores[kHeads * kMaxPageTokens], shrink[kHeadsAtOnce];
  PreparedWeights weights;
  uint32_t p = in.first / layout.page_tokens, low = in.first % layout.page_tokens;
  for (uint32_t start = p * layout.page_tokens; start < in.end; start += layout.page_tokens, ++p, low = 0) {
    const uint32_t after = start + layout.page_tokens < in.end ? p + 1 : p;
    const uint8_t* base = in.pool + head_base(layout, in.pages[p], kv_head);
    const uint8_t* next = in.pool + head_base(layout, in.pages[after], kv_head);
    const uint32_t count = smaller(layout.page_tokens, in.end - start);
    const uint32_t n_tiles = (count + kTileTokens - 1) / kTileTokens;
    score_page<kHeads, kSmall>(base, next, layout, prepared, in.levels, in.book_scale, step, count, scores,
                               kMaxPageTokens);
    if (in.centre_query)
      add_centre<kHeads>(base + layout.key_centres, in.centre_query + size_t(row) * d, d, count, scores, kMaxPageTokens);
    soften_packed<kHeads>(weights, scores, base + layout.value_scales, low, count, n_tiles * kTileTokens, in.limit, peak,
                          total, shrink);
    sum_page<kHeads, kSmall>(base, next, layout, weights, in.value_widths, in.levels, in.book_scale, in.groups, n_tiles,
                             shrink, out);
  }
}

template <bool kSmall>
TQ_INLINE decltype(&attend_heads<1, kSmall>) attend_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return attend_heads<4, kSmall>;
    if (heads == 3) return attend_heads<3, kSmall>;
    if (heads == 2) return attend_heads<2, kSmall>;
  }
  return attend_heads<1, kSmall>;
}

TQ_KERNEL inline void attend_packed(const int16_t* query, const float* step, const float* centre_query,
                                    const uint8_t* key_widths,
                                    const uint8_t* value_widths, const uint8_t* levels, const float* book_scale,
                                    const uint32_t* pages, const uint32_t* layout_words, const uint8_t* pool, float* peak,
                                    float* total, float* out, uint32_t q, uint32_t d, uint32_t e, uint32_t groups, uint32_t,
                                    uint32_t, uint32_t, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t first, uint32_t small) {
  if (n_tokens == 0) return;  // the page of `first` need not be there
  const PackedPages in{e ? centre_query : nullptr, pool, pages, read_layout(layout_words), key_widths, value_widths, levels, book_scale, groups, first,
                       first + n_tokens, small ? kSmallMax : kIntegerMax};
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    auto* run = small && kSmallIsFaster ? attend_for<kSmallIsFaster>(heads) : attend_for<false>(heads);
    run(in, row, kv_head, query + size_t(row) * d, step + row, peak + row, total + row, out + size_t(row) * d);
    row += heads;
  }
}

// Queries of t tokens, q / t heads each: token i over its own slots spans[2i] .. spans[2i] + spans[2i + 1] - 1 of the same pages.
TQ_KERNEL inline void attend_packed_each(const int16_t* query, const float* step, const float* centre_query,
                                         const uint8_t* key_widths, const uint8_t* value_widths, const uint8_t* levels,
                                         const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                         const uint8_t* pool, const uint32_t* spans, float* peak, float* total, float* out,
                                         uint32_t q, uint32_t d, uint32_t e, uint32_t groups, uint32_t w, uint32_t p,
                                         uint32_t b, uint32_t t, uint32_t n_kv_heads, uint32_t small) {
  const uint32_t heads = q / t;
  for (uint32_t i = 0; i < t; ++i) {
    const size_t row = size_t(i) * heads;
    attend_packed(query + row * d, step + row, centre_query + row * e, key_widths, value_widths, levels, book_scale, pages,
                  layout_words, pool, peak + row, total + row, out + row * d, heads, d, e, groups, w, p, b, n_kv_heads,
                  spans[2 * i + 1], spans[2 * i], small);
  }
}

// States of c parts of the history to one normalised output, parts in order; all parts empty gives zeros. k more
// logits per head, without values, add to the denominator only.
TQ_KERNEL inline void merge_states(const float* peaks, const float* totals, const float* outs, const float* sink, float* y,
                                   uint32_t c, uint32_t q, uint32_t d, uint32_t k) {
  for (uint32_t row = 0; row < q; ++row) {
    float peak = kLowest;
    for (uint32_t part = 0; part < c; ++part) peak = peaks[part * q + row] > peak ? peaks[part * q + row] : peak;
    for (uint32_t i = 0; i < k; ++i) peak = sink[i * q + row] > peak ? sink[i * q + row] : peak;
    float total = 0.0f;
    float* o = y + size_t(row) * d;
    for (uint32_t i = 0; i < d; i += kLanes) store(o + i, splat(0.0f));
    for (uint32_t part = 0; part < c; ++part) {
      const float share = exp2_of(peaks[part * q + row] - peak);
      total = total + totals[part * q + row] * share;
      const float* from = outs + (size_t(part) * q + row) * d;
      for (uint32_t i = 0; i < d; i += kLanes) store(o + i, load(o + i) + load(from + i) * splat(share));
    }
    for (uint32_t i = 0; i < k; ++i) total = total + exp2_of(sink[i * q + row] - peak);
    const F32 inverse = splat(total > 0.0f ? 1.0f / total : 0.0f);
    for (uint32_t i = 0; i < d; i += kLanes) store(o + i, load(o + i) * inverse);
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
