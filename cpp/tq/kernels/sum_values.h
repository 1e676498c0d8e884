// Weighted sums of packed values: channels in lanes, exact integer sums within a page. Weights are
// quantized to integers once per page and head.
namespace tq {
namespace TQ_TARGET {

using WeightWords = Multipliers<kMaxPageTokens / 4>;

template <int kBits, int kHeads, bool kSmall>
TQ_INLINE void sum_tile(Acc* acc, const uint8_t* rows, Table table, const WeightWords& weights, uint32_t at) {
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 0>(rows)), weights, at + 0);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 1>(rows)), weights, at + 1);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 2>(rows)), weights, at + 2);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 3>(rows)), weights, at + 3);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 4>(rows)), weights, at + 4);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 5>(rows)), weights, at + 5);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 6>(rows)), weights, at + 6);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 7>(rows)), weights, at + 7);
}

// The integer weights of up to four query heads over one page: words, totals and steps.
struct PreparedWeights {
  WeightWords words;
  int32_t totals[kHeadsAtOnce];
  float unit[kHeadsAtOnce];
};

// Weights of one head times the tokens' scales (n_tiles * 32 of each), to integers of magnitude at most `limit`.
TQ_INLINE void prepare_weights(PreparedWeights& out, int h, const float* weights, const uint8_t* scales, uint32_t n_tiles,
                               float limit) {
  float scaled[kMaxPageTokens];
  int16_t integers[kMaxPageTokens];
  const uint32_t n = n_tiles * kTileTokens;
  for (uint32_t t = 0; t < n; t += kLanes) store(scaled + t, load(weights + t) * load_half_bytes(scales + 2 * t));
  out.unit[h] = quantize_symmetric(scaled, integers, n, limit, out.totals[h]);
  const uint32_t at = uint32_t(h) * (kMaxPageTokens / 4);
  make_quads(integers, n, out.words.first + at, out.words.second + at);
}

// out = out * shrink + the sum; shrink is 1 where sums are only added up.
TQ_INLINE void add_sum(Acc acc, int32_t total, float scale, float shrink, float* out) {
  store(out, load(out) * splat(shrink) + signed_sum(acc, total) * splat(scale));
}

// One 16-channel group over the tiles of a page, added to out.
template <int kBits, int kHeads, bool kSmall>
TQ_INLINE void sum_group(const uint8_t* rows, uint32_t n_tiles, uint32_t stride, const uint8_t* levels, float book_scale,
                         const PreparedWeights& w, const float* shrink, float* out, size_t d) {
  const Table table = load_table(levels);
  Acc acc[kHeads];
  clear_heads<kHeads>(acc);
  for (uint32_t tile = 0; tile < n_tiles; ++tile)
    sum_tile<kBits, kHeads, kSmall>(acc, rows + size_t(tile) * stride, table, w.words, 8 * tile);
  add_sum(acc[0], w.totals[0], w.unit[0] * book_scale, shrink[0], out);
  if constexpr (kHeads > 1) add_sum(acc[1], w.totals[1], w.unit[1] * book_scale, shrink[1], out + d);
  if constexpr (kHeads > 2) add_sum(acc[2], w.totals[2], w.unit[2] * book_scale, shrink[2], out + 2 * d);
  if constexpr (kHeads > 3) add_sum(acc[3], w.totals[3], w.unit[3] * book_scale, shrink[3], out + 3 * d);
}

template <int kHeads, bool kSmall>
TQ_KERNEL inline void sum_page(const uint8_t* base, const uint8_t* next, const Layout& layout, const PreparedWeights& w,
                               const uint8_t* widths, const uint8_t* levels, const float* book_scale, uint32_t groups,
                               uint32_t n_tiles, const float* shrink, float* out) {
  const uint32_t stride = tile_bytes(widths, groups);
  const uint8_t* rows = base + layout.value_codes;
  const uint32_t share = (n_tiles * stride / groups + kRowBytes - 1) / kRowBytes * kRowBytes;
  for (uint32_t g = 0; g < groups; rows += widths[g] * kRowBytes, ++g) {
    const uint32_t row = widths[g] - 2;
    const uint8_t* book = levels + 16 * row;
    float* o = out + 16 * g;
    const size_t d = 16 * groups;
    prefetch(next + layout.value_codes + g * share, share);
    if (widths[g] == 4) {
      sum_group<4, kHeads, kSmall>(rows, n_tiles, stride, book, book_scale[row], w, shrink, o, d);
    } else if (widths[g] == 3) {
      sum_group<3, kHeads, kSmall>(rows, n_tiles, stride, book, book_scale[row], w, shrink, o, d);
    } else {
      sum_group<2, kHeads, kSmall>(rows, n_tiles, stride, book, book_scale[row], w, shrink, o, d);
    }
  }
}

// kHeads query heads of one KV head over all pages.
template <int kHeads>
TQ_KERNEL inline void sum_heads(const float* weights, const uint8_t* widths, const uint8_t* levels,
                                const float* book_scale, const uint32_t* pages, const Layout& layout, const uint8_t* pool,
                                float* out, uint32_t groups, uint32_t s, uint32_t kv_head, uint32_t n_tokens) {
  const float keep[kHeadsAtOnce] = {1.0f, 1.0f, 1.0f, 1.0f};
  for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t count = smaller(layout.page_tokens, n_tokens - start);
    const uint32_t n_tiles = (count + kTileTokens - 1) / kTileTokens;
    const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
    PreparedWeights prepared;
    for (int h = 0; h < kHeads; ++h) {
      float padded[kMaxPageTokens];
      for (uint32_t t = 0; t < n_tiles * kTileTokens; t += kLanes)
        store(padded + t, load_n(weights + h * size_t(s) + start + t, t < count ? count - t : 0, 0.0f));
      prepare_weights(prepared, h, padded, base + layout.value_scales, n_tiles, kIntegerMax);
    }
    sum_page<kHeads, false>(base, base, layout, prepared, widths, levels, book_scale, groups, n_tiles, keep, out);
  }
}

TQ_INLINE decltype(&sum_heads<1>) sum_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return sum_heads<4>;
    if (heads == 3) return sum_heads<3>;
    if (heads == 2) return sum_heads<2>;
  }
  return sum_heads<1>;
}

TQ_KERNEL inline void sum_values(const float* weights, const uint8_t* widths, const uint8_t* levels,
                                 const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                 const uint8_t* pool, float* out, uint32_t q, uint32_t s, uint32_t groups, uint32_t,
                                 uint32_t, uint32_t, uint32_t, uint32_t n_kv_heads, uint32_t n_tokens,
                                 uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    sum_for(heads)(weights + size_t(row) * s + offset, widths, levels, book_scale, pages, layout, pool,
                   out + size_t(row) * groups * 16, groups, s, kv_head, n_tokens);
    row += heads;
  }
}

// The float32 oracle: one token after the other, channels in lanes.
TQ_KERNEL inline void sum_values_f32(const float* weights, const uint8_t* widths, const uint8_t* levels,
                                     const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                     const uint8_t* pool, float* out, uint32_t q, uint32_t s, uint32_t groups, uint32_t,
                                     uint32_t, uint32_t, uint32_t d, uint32_t n_kv_heads, uint32_t n_tokens,
                                     uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t stride = tile_bytes(widths, groups), group_heads = q / n_kv_heads;
  for (uint32_t row = 0; row < q; ++row)
    for (uint32_t t = 0; t < n_tokens; ++t) {
      const uint32_t slot = t % layout.page_tokens;
      const uint8_t* base = pool + head_base(layout, pages[t / layout.page_tokens], row / group_heads);
      const uint8_t* tile = base + layout.value_codes + size_t(slot / kTileTokens) * stride;
      uint16_t halves[kLanes] = {};
      float scale[kLanes];
      __builtin_memcpy(halves, base + layout.value_scales + 2 * slot, 2);
      store(scale, load_half(halves));
      const F32 weight = splat(weights[size_t(row) * s + offset + t] * scale[0]);
      for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t bits = widths[g];
        const U32 levels4 = lookup16(load_table(levels + 16 * (bits - 2)), any_slice(tile, bits, slot / 4 % 8));
        float* o = out + size_t(row) * d + 16 * g;
        store(o, load(o) + weight * centroid_of_byte(levels4, int(slot % 4), book_scale[bits - 2]));
        tile += bits * kRowBytes;
      }
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
