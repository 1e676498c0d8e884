// Scores of one token's queries against packed keys: tokens in lanes, exact integer sums. The codes of
// a KV head are unpacked once for up to four of the query heads that share it.
namespace tq {
namespace TQ_TARGET {

TQ_KERNEL inline void quantize_query(const float* x, int16_t* query, float* step, uint32_t q, uint32_t d, float scale,
                                     float limit) {
  int32_t total;
  for (uint32_t row = 0; row < q; ++row) step[row] = quantize_symmetric(x + row * d, query + row * d, d, limit, total) * scale;
}

using QueryWords = Multipliers<kMaxHeadDim / 4>;

// Four channel quads of one 16-channel group, for token half kHalf of the tile.
template <int kBits, int kHalf, int kHeads, bool kSmall>
TQ_INLINE void score_group(Acc* acc, const uint8_t* rows, Table table, const QueryWords& query, uint32_t at) {
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 4 * kHalf + 0>(rows)), query, at + 0);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 4 * kHalf + 1>(rows)), query, at + 1);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 4 * kHalf + 2>(rows)), query, at + 2);
  accumulate_heads<kHeads, kSmall>(acc, lookup16(table, slice_codes<kBits, 4 * kHalf + 3>(rows)), query, at + 3);
}

template <int kBits, int kHeads, bool kSmall>
TQ_INLINE void score_run(F32* total, const uint8_t* rows, uint32_t half, const Run& run, const uint8_t* levels,
                         float book_scale, const QueryWords& query, const int32_t* sums) {
  const Table table = load_table(levels);
  Acc acc[kHeads];
  clear_heads<kHeads>(acc);
  for (uint32_t g = run.begin; g < run.end; ++g, rows += kBits * kRowBytes) {
    if (half) {
      score_group<kBits, 1, kHeads, kSmall>(acc, rows, table, query, 4 * g);
    } else {
      score_group<kBits, 0, kHeads, kSmall>(acc, rows, table, query, 4 * g);
    }
  }
  total[0] = total[0] + signed_sum(acc[0], sums[0]) * splat(book_scale);
  if constexpr (kHeads > 1) total[1] = total[1] + signed_sum(acc[1], sums[1]) * splat(book_scale);
  if constexpr (kHeads > 2) total[2] = total[2] + signed_sum(acc[2], sums[2]) * splat(book_scale);
  if constexpr (kHeads > 3) total[3] = total[3] + signed_sum(acc[3], sums[3]) * splat(book_scale);
}

// Up to four query heads of one KV head, ready to be scored: their words, and per run of widths their totals.
struct PreparedQuery {
  QueryWords words;
  Run runs[kMaxGroups];
  int32_t totals[kHeadsAtOnce * kMaxGroups];
  uint32_t n_runs, tile_stride;
};

template <int kHeads>
TQ_INLINE void prepare_query(PreparedQuery& out, const int16_t* query, const uint8_t* widths, uint32_t d) {
  out.n_runs = find_runs(widths, d / 16, out.runs);
  out.tile_stride = tile_bytes(widths, d / 16);
  for (int h = 0; h < kHeads; ++h)
    make_quads(query + h * d, d, out.words.first + h * (kMaxHeadDim / 4), out.words.second + h * (kMaxHeadDim / 4));
  for (uint32_t r = 0; r < out.n_runs; ++r)
    for (int h = 0; h < kHeads; ++h) {
      int32_t total = 0;
      for (uint32_t k = 16 * out.runs[r].begin; k < 16 * out.runs[r].end; ++k) total += query[h * d + k];
      out.totals[r * kHeads + h] = total;
    }
}

// All slots 0..count-1 of one page and KV head, for kHeads query heads. `next` is the block that will be read
// after this one.
template <int kHeads, bool kSmall>
TQ_KERNEL inline void score_page(const uint8_t* base, const uint8_t* next, const Layout& layout,
                                 const PreparedQuery& query, const uint8_t* levels, const float* book_scale,
                                 const float* step, uint32_t count, float* scores, size_t s) {
  const uint32_t half_bytes = query.tile_stride / 2;
  for (uint32_t slot = 0; slot < count; slot += kLanes) {
    const size_t tile_at = layout.key_codes + size_t(slot / kTileTokens) * query.tile_stride;
    const uint8_t* rows = base + tile_at;
    const uint32_t half = slot / kLanes % 2;
    prefetch(next + tile_at + half * half_bytes, half_bytes);
    F32 total[kHeads];
    for (int h = 0; h < kHeads; ++h) total[h] = splat(0.0f);
    for (uint32_t r = 0; r < query.n_runs; ++r) {
      const Run& run = query.runs[r];
      const uint32_t row = run.bits - 2;
      const int32_t* totals = query.totals + r * kHeads;
      if (run.bits == 4) {
        score_run<4, kHeads, kSmall>(total, rows, half, run, levels + 16 * row, book_scale[row], query.words, totals);
      } else if (run.bits == 3) {
        score_run<3, kHeads, kSmall>(total, rows, half, run, levels + 16 * row, book_scale[row], query.words, totals);
      } else {
        score_run<2, kHeads, kSmall>(total, rows, half, run, levels + 16 * row, book_scale[row], query.words, totals);
      }
      rows += (run.end - run.begin) * run.bits * kRowBytes;
    }
    const F32 key_scale = load_half_bytes(base + layout.key_scales + 2 * slot);
    const uint32_t live = smaller(kLanes, count - slot);
    for (int h = 0; h < kHeads; ++h) {
      const F32 out = (total[h] * key_scale) * splat(step[h]);
      if (live == kLanes) {
        store(scores + h * s + slot, out);
      } else {
        store_n(scores + h * s + slot, out, live);
      }
    }
  }
}

// kHeads query heads of one KV head over all pages.
template <int kHeads>
TQ_KERNEL inline void score_heads(const int16_t* query, const float* step, const uint8_t* widths, const uint8_t* levels,
                                  const float* book_scale, const uint32_t* pages, const Layout& layout,
                                  const uint8_t* pool, float* scores, uint32_t d, uint32_t s, uint32_t kv_head,
                                  uint32_t n_tokens) {
  PreparedQuery prepared;
  prepare_query<kHeads>(prepared, query, widths, d);
  for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < n_tokens ? p + 1 : p;
    score_page<kHeads, false>(pool + head_base(layout, pages[p], kv_head), pool + head_base(layout, pages[after], kv_head),
                              layout, prepared, levels, book_scale, step, smaller(layout.page_tokens, n_tokens - start),
                              scores + start, s);
  }
}

TQ_INLINE decltype(&score_heads<1>) score_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return score_heads<4>;
    if (heads == 3) return score_heads<3>;
    if (heads == 2) return score_heads<2>;
  }
  return score_heads<1>;
}

TQ_KERNEL inline void score_keys(const int16_t* query, const float* step, const uint8_t* widths, const uint8_t* levels,
                                 const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                 const uint8_t* pool, float* scores, uint32_t q, uint32_t d, uint32_t, uint32_t,
                                 uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens,
                                 uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    score_for(heads)(query + size_t(row) * d, step + row, widths, levels, book_scale, pages, layout, pool,
                     scores + size_t(row) * s + offset, d, s, kv_head, n_tokens);
    row += heads;
  }
}

// The float32 oracle: centroids times query in channel order, tokens in lanes.
TQ_KERNEL inline void score_keys_f32(const float* query, const uint8_t* widths, const uint8_t* levels,
                                     const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                     const uint8_t* pool, float* scores, uint32_t q, uint32_t d, uint32_t groups,
                                     uint32_t, uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens,
                                     uint32_t offset, float scale) {
  const Layout layout = read_layout(layout_words);
  const uint32_t stride = tile_bytes(widths, groups), group_heads = q / n_kv_heads;
  for (uint32_t row = 0; row < q; ++row)
    for (uint32_t slot = 0; slot < n_tokens; slot += kLanes) {
      const uint32_t in_page = slot % layout.page_tokens;
      const uint8_t* base = pool + head_base(layout, pages[slot / layout.page_tokens], row / group_heads);
      const uint8_t* tile = base + layout.key_codes + size_t(in_page / kTileTokens) * stride;
      F32 total = splat(0.0f);
      for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t bits = widths[g];
        for (uint32_t quad = 0; quad < 4; ++quad) {
          const U32 levels4 = lookup16(load_table(levels + 16 * (bits - 2)),
                                       any_slice(tile, bits, 4 * (in_page / kLanes % 2) + quad));
          for (uint32_t k = 0; k < 4; ++k)
            total = total + splat(query[size_t(row) * d + 16 * g + 4 * quad + k]) *
                                centroid_of_byte(levels4, int(k), book_scale[bits - 2]);
        }
        tile += bits * kRowBytes;
      }
      const F32 out = (total * load_half_bytes(base + layout.key_scales + 2 * in_page)) * splat(scale);
      store_n(scores + size_t(row) * s + offset + slot, out, smaller(kLanes, n_tokens - slot));
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
