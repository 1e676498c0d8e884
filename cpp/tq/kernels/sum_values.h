// Weighted sums of packed values: channels in lanes, exact integer sums within a page. Weights are
// quantized to integers once per page and head.
namespace tq {
namespace TQ_TARGET {

using WeightWords = Multipliers<kMaxPageTokens / 4>;

template <int kBits, int kHeads>
TQ_INLINE void sum_tile(Acc* acc, const uint8_t* rows, Table table, const WeightWords& weights, uint32_t at) {
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 0>(rows)), weights, at + 0);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 1>(rows)), weights, at + 1);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 2>(rows)), weights, at + 2);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 3>(rows)), weights, at + 3);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 4>(rows)), weights, at + 4);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 5>(rows)), weights, at + 5);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 6>(rows)), weights, at + 6);
  accumulate_heads<kHeads>(acc, lookup16(table, slice_codes<kBits, 7>(rows)), weights, at + 7);
}

TQ_INLINE void add_sum(Acc acc, int32_t total, float scale, float* out) {
  store(out, load(out) + signed_sum(acc, total) * splat(scale));
}

// One 16-channel group over the tiles of a page, added to out.
template <int kBits, int kHeads>
TQ_INLINE void sum_group(const uint8_t* rows, uint32_t n_tiles, uint32_t stride, const uint8_t* levels, float book_scale,
                         const WeightWords& weights, const int32_t* sums, const float* unit, float* out, uint32_t d) {
  const Table table = load_table(levels);
  Acc acc[kHeads];
  clear_heads<kHeads>(acc);
  for (uint32_t tile = 0; tile < n_tiles; ++tile)
    sum_tile<kBits, kHeads>(acc, rows + size_t(tile) * stride, table, weights, 8 * tile);
  add_sum(acc[0], sums[0], unit[0] * book_scale, out);
  if constexpr (kHeads > 1) add_sum(acc[1], sums[1], unit[1] * book_scale, out + d);
  if constexpr (kHeads > 2) add_sum(acc[2], sums[2], unit[2] * book_scale, out + 2 * d);
  if constexpr (kHeads > 3) add_sum(acc[3], sums[3], unit[3] * book_scale, out + 3 * d);
}

template <int kHeads>
TQ_KERNEL inline void sum_page(const uint8_t* base, const Layout& layout, const float* weights, uint32_t s,
                               const uint8_t* widths, const uint8_t* levels, const float* book_scale, uint32_t groups,
                               uint32_t count, float* out) {
  const uint32_t n_tiles = (count + kTileTokens - 1) / kTileTokens, stride = tile_bytes(widths, groups);
  WeightWords words;
  int32_t sums[kHeads];
  float unit[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    float scaled[kMaxPageTokens];
    int16_t integers[kMaxPageTokens];
    const float* w = weights + size_t(h) * s;
    for (uint32_t t = 0; t < n_tiles * kTileTokens; t += kLanes) {
      const uint32_t live = t < count ? smaller(kLanes, count - t) : 0;
      const F32 weight = live == kLanes ? load(w + t) : load_n(w + t, live, 0.0f);
      store(scaled + t, weight * load_half_bytes(base + layout.value_scales + 2 * t));
    }
    unit[h] = quantize_symmetric(scaled, integers, n_tiles * kTileTokens, sums[h]);
    make_quads(integers, n_tiles * kTileTokens, words.first + h * (kMaxPageTokens / 4),
               words.second + h * (kMaxPageTokens / 4));
  }
  const uint8_t* rows = base + layout.value_codes;
  for (uint32_t g = 0; g < groups; rows += widths[g] * kRowBytes, ++g) {
    const uint32_t row = widths[g] - 2;
    const uint8_t* book = levels + 16 * row;
    float* o = out + 16 * g;
    const uint32_t d = 16 * groups;
    if (widths[g] == 4) {
      sum_group<4, kHeads>(rows, n_tiles, stride, book, book_scale[row], words, sums, unit, o, d);
    } else if (widths[g] == 3) {
      sum_group<3, kHeads>(rows, n_tiles, stride, book, book_scale[row], words, sums, unit, o, d);
    } else {
      sum_group<2, kHeads>(rows, n_tiles, stride, book, book_scale[row], words, sums, unit, o, d);
    }
  }
}

TQ_KERNEL inline void sum_values(const float* weights, const uint8_t* widths, const uint8_t* levels,
                                 const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                 const uint8_t* pool, float* out, uint32_t q, uint32_t s, uint32_t groups, uint32_t,
                                 uint32_t, uint32_t, uint32_t d, uint32_t n_kv_heads, uint32_t n_tokens,
                                 uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsAtOnce, (kv_head + 1) * group - row);
    auto* run = heads == 1 ? sum_page<1> : heads == 2 ? sum_page<2> : heads == 3 ? sum_page<3> : sum_page<4>;
    for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p)
      run(pool + head_base(layout, pages[p], kv_head), layout, weights + size_t(row) * s + offset + start, s, widths,
          levels, book_scale, groups, smaller(layout.page_tokens, n_tokens - start), out + size_t(row) * d);
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
