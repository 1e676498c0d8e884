// Weighted sums of packed values: channels in lanes, exact integer sums within a page. Weights are
// quantized to integers once per page and head.
namespace tq {
namespace TQ_TARGET {

using WeightWords = Multipliers<kMaxPageTokens / 4>;

constexpr uint32_t kTogether = kRegsInPass * kRegLanes > kLanes ? 2 : 1;  // groups of 16 channels in a pass

// Slice kSlice of a tile: four tokens of all channels. A register of 16 lanes is one group of 16 channels, and
// a pass of two takes two groups, `second` bytes apart; narrower registers are columns of one group.
template <int kBits, int kSlice, int kHeads, bool kSmall>
TQ_INLINE void sum_slice(Acc* acc, const uint8_t* rows, size_t second, const Levels& levels, const WeightWords& weights, uint32_t at) {
  Reg bytes[kRegsInPass];
  bytes[0] = level_bytes<kBits, kSlice>(levels, rows);
  if constexpr (kRegsInPass == 2) bytes[1] = level_bytes<kBits, kSlice>(levels, rows + second);
  accumulate_all<kSmall>(acc, bytes, weights, at + kSlice, UpTo<kHeads * kRegsInPass>());
}

// The same slice of every tile.
template <int kBits, int kSlice, int kHeads, bool kSmall>
TQ_INLINE void sum_slices(Acc* acc, const uint8_t* rows, size_t second, uint32_t n_tiles, size_t stride, const Levels& levels,
                          const WeightWords& weights) {
  for (uint32_t tile = 0; tile < n_tiles; ++tile, rows += stride)
    sum_slice<kBits, kSlice, kHeads, kSmall>(acc, rows, second, levels, weights, 8 * tile);
}

// The integer weights of up to four query heads over one page: words, totals and steps.
struct PreparedWeights {
  WeightWords words;
  int32_t totals[kHeadsAtOnce];
  float unit[kHeadsAtOnce];
};

// n weights, of which `largest` is the largest magnitude, to integers of magnitude at most `limit`.
TQ_INLINE void quantize_weights(PreparedWeights& out, int h, const float* weights, uint32_t n, float largest, float limit) {
  const F32 inverse = splat(largest > kTiny ? limit / largest : 0.0f);
  I32 sum = zero_i32();
  for (uint32_t t = 0; t < n; t += kLanes) {
    const I32 q = round_within(load(weights + t) * inverse, limit);
    sum = sum + q;
    out.words.put(h, t, q);
  }
  out.totals[h] = lane_total(sum);
  out.unit[h] = largest * (1.0f / limit);
}

// out = out * shrink + the sum; shrink is 1 where sums are only added up.
template <int kBits>
TQ_INLINE void add_sum(const int32_t* sums, int32_t total, float scale, float shrink, float* out) {
  store(out, load(out) * splat(shrink) + signed_sum<kBits>(sums, total) * splat(scale));
}

// kTogether neighbouring groups of the same code over the tiles of a page, added to out; of them `live` are asked for, and
// one that is alone is taken twice. `ahead` leads to the same place of the page that is read next.
template <int kBits, int kHeads, bool kSmall, int... kIndex>
TQ_INLINE void sum_groups(const uint8_t* rows, ptrdiff_t ahead, uint32_t live, uint32_t n_tiles, uint32_t stride, const Levels& levels,
                          float book_scale, const PreparedWeights& w, const float* shrink, float* out, size_t d,
                          Indices<kIndex...>) {
  constexpr uint32_t kPass = kRegsInPass * kRegLanes < kLanes ? kRegsInPass * kRegLanes : kLanes;  // channels of a group
  constexpr uint32_t kWidth = kRegsInPass * kRegLanes > kLanes ? kRegsInPass * kRegLanes : kLanes;
  const size_t second = kRegLanes < kLanes ? kRegBytes : (live - 1) * kBits * kRowBytes;
  alignas(kRowBytes) int32_t sums[kHeads * kWidth];
  for (uint32_t c = 0; c < kLanes; c += kPass) {
    Acc acc[kHeads * kRegsInPass] = {no_sum<kIndex>()...};
    if constexpr (kOneSliceLoops) {
      const uint8_t* at = rows + 4 * c;
      sum_slices<kBits, 0, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 1, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 2, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 3, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 4, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 5, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 6, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
      sum_slices<kBits, 7, kHeads, kSmall>(acc, at, second, n_tiles, stride, levels, w.words);
    } else {
      for (uint32_t tile = 0; tile < n_tiles; ++tile) {
        const uint8_t* at = rows + size_t(tile) * stride + 4 * c;
        if (c == 0) prefetch_rows(at + ahead, live * kBits);
        sum_slice<kBits, 0, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 1, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 2, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 3, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 4, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 5, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 6, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
        sum_slice<kBits, 7, kHeads, kSmall>(acc, at, second, levels, w.words, 8 * tile);
      }
    }
    (store_reg(sums + kIndex / kRegsInPass * kWidth + kIndex % kRegsInPass * kRegLanes + c, finish(acc[kIndex])), ...);
  }
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t g = 0; g < live; ++g)
      add_sum<kBits>(sums + h * kWidth + g * kLanes, w.totals[h], w.unit[h] * book_scale, shrink[h],
              out + h * d + g * kGroupStep<kBits> * kLanes);
}

// A run of groups of one code; every group's sums are its own, so how many go together does not matter.
template <int kBits, int kHeads, bool kSmall>
TQ_INLINE void sum_run(const uint8_t* rows, ptrdiff_t ahead, uint32_t n_tiles, uint32_t stride, uint32_t n_groups,
                       const uint8_t* book, uint32_t code, float book_scale, const PreparedWeights& w,
                       const float* shrink, float* out, size_t d) {
  const Levels levels = load_levels<kBits>(book, code);
  constexpr uint32_t kNext = kTogether * kGroupStep<kBits> * kLanes;
  for (uint32_t g = 0; g < n_groups; g += kTogether, rows += kTogether * kBits * kRowBytes, out += kNext)
    sum_groups<kBits, kHeads, kSmall>(rows, ahead, smaller(kTogether, n_groups - g), n_tiles, stride, levels, book_scale, w,
                                      shrink, out, d, UpTo<kHeads * kRegsInPass>());
}

// The same for either coordinate of pair codes.
template <int kHeads>
TQ_KERNEL inline void sum_pairs(const uint8_t* rows, ptrdiff_t ahead, uint32_t n_tiles, uint32_t stride, uint32_t n,
                                const uint8_t* book, uint32_t code, float book_scale, const PreparedWeights& w,
                                const float* shrink, float* out, size_t d) {
  if (code_bits(code) == 5) {
    sum_run<5, kHeads, false>(rows, ahead, n_tiles, stride, n, book, code, book_scale, w, shrink, out, d);
  } else {
    sum_run<7, kHeads, false>(rows, ahead, n_tiles, stride, n, book, code, book_scale, w, shrink, out, d);
  }
}

template <int kHeads, bool kSmall>
TQ_KERNEL inline void sum_page(const uint8_t* base, const uint8_t* next, const Layout& layout, const PreparedWeights& w,
                               const uint8_t* widths, const uint8_t* levels, const float* book_scale, uint32_t groups,
                               uint32_t n_tiles, const float* shrink, float* out) {
  const uint32_t stride = tile_bytes(widths, groups);
  const uint8_t* rows = base + layout.value_codes;
  const size_t d = 16 * groups;
  Run runs[kMaxGroups];
  const uint32_t n_runs = find_runs(widths, groups, runs);
  prefetch_rows(next + layout.value_scales, n_tiles * (2 * kTileTokens / kRowBytes));
  for (uint32_t r = 0; r < n_runs; ++r) {
    const uint32_t row = book_row(runs[r].code), n = (runs[r].end - runs[r].begin + runs[r].step - 1) / runs[r].step;
    float* o = out + 16 * runs[r].begin;
    const uint32_t code = runs[r].code;
    const uint8_t* book = levels + 16 * row;
    if (code == 4) {
      sum_run<4, kHeads, kSmall>(rows, next - base, n_tiles, stride, n, book, code, book_scale[row], w, shrink, o, d);
    } else if (code == 3) {
      sum_run<3, kHeads, kSmall>(rows, next - base, n_tiles, stride, n, book, code, book_scale[row], w, shrink, o, d);
    } else if (code > 9) {
      sum_pairs<kHeads>(rows, next - base, n_tiles, stride, n, book, code, book_scale[row], w, shrink, o, d);
    } else {
      sum_run<2, kHeads, kSmall>(rows, next - base, n_tiles, stride, n, book, code, book_scale[row], w, shrink, o, d);
    }
    rows += runs[r].rows * kRowBytes;
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
    const uint32_t after = start + layout.page_tokens < n_tokens ? p + 1 : p;
    const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
    const uint8_t* next = pool + head_base(layout, pages[after], kv_head);
    PreparedWeights prepared;
    for (int h = 0; h < kHeads; ++h) {
      alignas(kRowBytes) float scaled[kMaxPageTokens];
      F32 most = splat(0.0f);
      for (uint32_t t = 0; t < n_tiles * kTileTokens; t += kLanes) {
        const F32 weight = load_n(weights + h * size_t(s) + start + t, t < count ? count - t : 0, 0.0f);
        const F32 x = weight * load_half_bytes(base + layout.value_scales + 2 * t);
        most = max(most, magnitude(x));
        store(scaled + t, x);
      }
      quantize_weights(prepared, h, scaled, n_tiles * kTileTokens, lane_max(most), kIntegerMax);
    }
    sum_page<kHeads, false>(base, next, layout, prepared, widths, levels, book_scale, groups, n_tiles, keep, out);
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
        const uint32_t code = group_code(widths, g), book = book_row(code);
        const U32 levels4 = slice_levels(group_rows(tile, widths, g), code, slot / 4 % 8, levels + 16 * book);
        float* o = out + size_t(row) * d + 16 * g;
        store(o, load(o) + weight * centroid_of_byte(levels4, int(slot % 4), book_scale[book]));
        tile += widths[g] * kRowBytes;
      }
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
