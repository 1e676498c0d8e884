// QJL: the query's sketch changes from tile to tile, since each tile has outlier channels of its own. It is made anew for
// every tile from the whole query's sketch, rounded to integers, and met with the signs; 256 rows at a time.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kMaxOutliers = 16;
constexpr uint32_t kRunChannels = kRunGroups * kLanes;

// Channels that tile `tile` has taken out, each at most d - 1 whatever the page says.
TQ_INLINE void read_outliers(uint32_t* channels, const uint8_t* index, uint32_t tile, uint32_t n, uint32_t d) {
  const uint32_t size = d <= 256 ? 1 : 2;
  for (uint32_t i = 0; i < n; ++i, ++channels) {
    uint16_t wide = 0;
    __builtin_memcpy(&wide, index + size_t(tile * n + i) * size, size);
    *channels = smaller(wide, d - 1);
  }
}

struct Outliers {
  uint32_t channels[kMaxOutliers], n;
};

// kVectors * 16 rows of one sketch over the outlier channels: start less, or plus, query[c] * column c.
template <bool kMinus, int... k>
TQ_INLINE void sketch_rows(float* out, const float* start, const float* query, const float* columns, size_t m,
                           const Outliers& outliers, Indices<k...>) {
  F32 total[] = {(kMinus ? load(start + kLanes * k) : splat(0.0f))...};
  for (uint32_t i = 0; i < outliers.n; ++i) {
    const float* column = columns + outliers.channels[i] * m;
    const F32 times = splat(query[outliers.channels[i]]);
    if constexpr (kMinus) ((total[k] = total[k] - times * load(column + kLanes * k)), ...);
    if constexpr (!kMinus) ((total[k] = total[k] + times * load(column + kLanes * k)), ...);
  }
  (store(out + kLanes * k, total[k]), ...);
}

// `width` rows, four vectors at a time: each column is read in pieces of 256 bytes, and four sums run side by side.
template <bool kMinus>
TQ_INLINE void sketch_run(float* out, const float* start, const float* query, const float* columns, size_t m,
                          const Outliers& outliers, uint32_t width) {
  uint32_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
    sketch_rows<kMinus>(out + i, start + i, query, columns + i, m, outliers, UpTo<4>());
  for (; i < width; i += kLanes) sketch_rows<kMinus>(out + i, start + i, query, columns + i, m, outliers, UpTo<1>());
}

using RunWords = Multipliers<kRunChannels / 4>;

// One sketch of `m` rows against one tile, added to total: (exact * scale) * step for every run of 256 rows.
template <int kHeads, bool kMinus>
TQ_INLINE void score_tile(float* total, const uint8_t* rows, const F32* scale, uint32_t live, const float* sketched,
                          const float* query, const float* columns, uint32_t m, uint32_t d, const Outliers& outliers) {
  constexpr uint32_t kPass = kRegsInPass * kRegLanes;
  const UpTo<kHeads * kRegsInPass> all;
  const Levels levels = load_levels<1>(kNoBook, 1);
  RunWords words;
  alignas(kRowBytes) float row[kRunChannels];
  alignas(kRowBytes) int32_t sums[kHeads * kTileTokens];
  float step[kHeads];
  int32_t totals[kHeads];
  for (uint32_t first = 0; first < m; first += kRunChannels) {
    const uint32_t width = smaller(kRunChannels, m - first);
    for (int h = 0; h < kHeads; ++h) {
      sketch_run<kMinus>(row, kMinus ? sketched + h * size_t(m) + first : row, query + h * d, columns + first, m, outliers,
                         width);
      F32 most = splat(0.0f);
      for (uint32_t i = 0; i < width; i += kLanes) most = max(most, magnitude(load(row + i)));
      const float largest = lane_max(most);
      const F32 inverse = splat(largest > kTiny ? kIntegerMax / largest : 0.0f);
      I32 sum = zero_i32();
      for (uint32_t i = 0; i < width; i += kLanes) {
        const I32 integers = round_within(load(row + i) * inverse, kIntegerMax);
        sum = sum + integers;
        words.put(h, i, integers);
      }
      step[h] = largest * (1.0f / kIntegerMax);
      totals[h] = lane_total(sum);
    }
    const Run run = {0, width / kLanes, 1, 1, width / kLanes};
    for (uint32_t t = 0; t < live; t += kPass) {
      if (kPass > kLanes || t < kLanes) {
        score_pass<1, 0, kHeads, false>(sums + t, rows + 4 * t, 0, run, levels, words, all);
      } else if constexpr (kPass <= kLanes) {
        score_pass<1, 1, kHeads, false>(sums + t, rows + 4 * (t - kLanes), 0, run, levels, words, all);
      }
    }
    for (int h = 0; h < kHeads; ++h)
      for (uint32_t t = 0; t < live; t += kLanes) {
        float* at = total + h * kTileTokens + t;
        const F32 exact = signed_sum<1>(sums + h * kTileTokens + t, totals[h]);
        store(at, load(at) + (exact * scale[t / kLanes]) * splat(step[h]));
      }
    rows += width / kLanes * kRowBytes;
  }
}

// What a page of QJL has beside the key streams, and the constants that make each estimate unbiased.
struct SketchParts {
  const float *inner, *outer;
  uint32_t rows, outer_rows, n_outliers, outliers_at, outer_scales_at, outer_codes_at;
  float inner_factor, outer_factor;
};

template <int kHeads>
TQ_KERNEL inline void score_sketch_page(const uint8_t* base, const Layout& layout, const SketchParts& parts,
                                        const float* query, const float* sketched, uint32_t count, float* scores, uint32_t d,
                                        size_t s) {
  const uint8_t *codes = base + layout.key_codes, *outer_codes = base + parts.outer_codes_at;
  for (uint32_t slot = 0; slot < count; slot += kTileTokens) {
    const uint32_t live = smaller(kTileTokens, count - slot);
    Outliers outliers;
    outliers.n = parts.n_outliers;
    read_outliers(outliers.channels, base + parts.outliers_at, slot / kTileTokens, parts.n_outliers, d);
    F32 scale[kTileTokens / kLanes], outer_scale[kTileTokens / kLanes];
    for (uint32_t t = 0; t < kTileTokens; t += kLanes) {
      scale[t / kLanes] = load_half_bytes(base + layout.key_scales + 2 * (slot + t)) * splat(parts.inner_factor);
      outer_scale[t / kLanes] = load_half_bytes(base + parts.outer_scales_at + 2 * (slot + t)) * splat(parts.outer_factor);
    }
    alignas(kRowBytes) float total[kHeads * kTileTokens];
    for (uint32_t i = 0; i < kHeads * kTileTokens; i += kLanes) store(total + i, splat(0.0f));
    score_tile<kHeads, true>(total, codes, scale, live, sketched, query, parts.inner, parts.rows, d, outliers);
    score_tile<kHeads, false>(total, outer_codes, outer_scale, live, sketched, query, parts.outer, parts.outer_rows, d,
                              outliers);
    codes += parts.rows / kLanes * kRowBytes;
    outer_codes += parts.outer_rows / kLanes * kRowBytes;
    for (int h = 0; h < kHeads; ++h)
      for (uint32_t t = 0; t < live; t += kLanes)
        store_n(scores + h * s + slot + t, load(total + h * kTileTokens + t), live - t);
  }
}

TQ_INLINE decltype(&score_sketch_page<1>) score_sketch_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return score_sketch_page<4>;
    if (heads == 3) return score_sketch_page<3>;
    if (heads == 2) return score_sketch_page<2>;
  }
  return score_sketch_page<1>;
}

TQ_KERNEL inline void score_sketch(const float* query, const float* sketched, const float* inner, const float* outer,
                                   const uint32_t* pages, const uint32_t* layout_words, const uint8_t* pool, float* scores,
                                   uint32_t q, uint32_t d, uint32_t r, uint32_t v, uint32_t, uint32_t, uint32_t s,
                                   uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset, uint32_t n_outliers,
                                   uint32_t outliers_at, uint32_t outer_scales_at, uint32_t outer_codes_at,
                                   float inner_factor, float outer_factor) {
  const Layout layout = read_layout(layout_words);
  const SketchParts parts = {inner, outer, r, v, n_outliers, outliers_at, outer_scales_at, outer_codes_at, inner_factor, outer_factor};
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p)
      score_sketch_for(heads)(pool + head_base(layout, pages[p], kv_head), layout, parts, query + size_t(row) * d,
                              sketched + size_t(row) * r, smaller(layout.page_tokens, n_tokens - start),
                              scores + size_t(row) * s + offset + start, d, s);
    row += heads;
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
