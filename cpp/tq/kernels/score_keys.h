// Scores of one token's queries against packed keys: tokens in lanes, exact integer sums. The codes of
// a KV head are unpacked once for up to four of the query heads that share it.
namespace tq {
namespace TQ_TARGET {

TQ_KERNEL inline void quantize_query(const float* x, int16_t* query, float* step, uint32_t q, uint32_t d, float scale,
                                     float limit) {
  for (uint32_t row = 0; row < q; ++row) step[row] = quantize_symmetric(x + row * d, query + row * d, d, limit) * scale;
}

using QueryWords = Multipliers<kMaxHeadDim / 4>;

// Channel quad kQuad of a 16-channel group. A register of 16 lanes holds one half of the tile's tokens, and a pass
// takes the two halves; narrower registers are columns of half kHalf.
template <int kBits, int kHalf, int kQuad, int kHeads, bool kSmall, uint32_t kWords>
TQ_INLINE void score_quad(Acc* acc, const uint8_t* rows, const Levels& levels, const Multipliers<kWords>& query, uint32_t at) {
  Reg bytes[kRegsInPass];
  bytes[0] = level_bytes<kBits, 4 * kHalf + kQuad>(levels, rows);
  if constexpr (kRegsInPass == 2 && kRegLanes == kLanes) bytes[1] = level_bytes<kBits, 4 + kQuad>(levels, rows);
  if constexpr (kRegsInPass == 2 && kRegLanes < kLanes)
    bytes[1] = level_bytes<kBits, 4 * kHalf + kQuad>(levels, rows + kRegBytes);
  accumulate_all<kSmall>(acc, bytes, query, at + kQuad, UpTo<kHeads * kRegsInPass>());
}

// The same quad of every group of a run.
template <int kBits, int kHalf, int kQuad, int kHeads, bool kSmall, uint32_t kWords>
TQ_INLINE void score_quads(Acc* acc, const uint8_t* rows, const Run& run, const Levels& levels, const Multipliers<kWords>& query) {
  for (uint32_t g = run.begin; g < run.end; g += kGroupStep<kBits>, rows += kBits * kRowBytes)
    score_quad<kBits, kHalf, kQuad, kHeads, kSmall>(acc, rows, levels, query, 4 * g);
}

// Sums of one run of groups for the tokens of one pass, to sums[head * kTileTokens + ...]. `ahead` leads to the same
// place of the page that is read next.
template <int kBits, int kHalf, int kHeads, bool kSmall, uint32_t kWords, int... kIndex>
TQ_INLINE void score_pass(int32_t* sums, const uint8_t* rows, ptrdiff_t ahead, const Run& run, const Levels& levels,
                          const Multipliers<kWords>& query, Indices<kIndex...>) {
  Acc acc[kHeads * kRegsInPass] = {no_sum<kIndex>()...};
  if constexpr (kOneSliceLoops) {
    score_quads<kBits, kHalf, 0, kHeads, kSmall>(acc, rows, run, levels, query);
    score_quads<kBits, kHalf, 1, kHeads, kSmall>(acc, rows, run, levels, query);
    score_quads<kBits, kHalf, 2, kHeads, kSmall>(acc, rows, run, levels, query);
    score_quads<kBits, kHalf, 3, kHeads, kSmall>(acc, rows, run, levels, query);
  } else {
    for (uint32_t g = run.begin; g < run.end; g += kGroupStep<kBits>, rows += kBits * kRowBytes) {
      if (ahead) prefetch_rows(rows + ahead, kBits);
      score_quad<kBits, kHalf, 0, kHeads, kSmall>(acc, rows, levels, query, 4 * g);
      score_quad<kBits, kHalf, 1, kHeads, kSmall>(acc, rows, levels, query, 4 * g);
      score_quad<kBits, kHalf, 2, kHeads, kSmall>(acc, rows, levels, query, 4 * g);
      score_quad<kBits, kHalf, 3, kHeads, kSmall>(acc, rows, levels, query, 4 * g);
    }
  }
  (store_reg(sums + kIndex / kRegsInPass * kTileTokens + kIndex % kRegsInPass * kRegLanes, finish(acc[kIndex])), ...);
}

// One run of groups over the first `live` tokens of a tile, added to total[head * kTileTokens + token].
template <int kBits, int kHeads, bool kSmall>
TQ_INLINE void score_run(float* total, const uint8_t* rows, ptrdiff_t ahead, uint32_t live, const Run& run,
                         const uint8_t* book, float book_scale, const QueryWords& query, const int32_t* query_totals) {
  constexpr uint32_t kPass = kRegsInPass * kRegLanes;  // tokens
  const Levels levels = load_levels<kBits>(book, run.code);
  const UpTo<kHeads * kRegsInPass> all;
  alignas(kRowBytes) int32_t sums[kHeads * kTileTokens];
  for (uint32_t t = 0; t < live; t += kPass, ahead = 0) {
    if (kPass > kLanes || t < kLanes) {
      score_pass<kBits, 0, kHeads, kSmall>(sums + t, rows + 4 * t, ahead, run, levels, query, all);
    } else if constexpr (kPass <= kLanes) {  // a wider pass has both halves already
      score_pass<kBits, 1, kHeads, kSmall>(sums + t, rows + 4 * (t - kLanes), ahead, run, levels, query, all);
    }
  }
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t t = 0; t < live; t += kLanes) {
      float* at = total + h * kTileTokens + t;
      store(at, load(at) + signed_sum<kBits>(sums + h * kTileTokens + t, query_totals[h]) * splat(book_scale));
    }
}

// The same for either coordinate of pair codes; apart, so that it does not weigh on the loop over other codes.
template <int kHeads>
TQ_KERNEL inline void score_pairs(float* total, const uint8_t* rows, ptrdiff_t ahead, uint32_t live, const Run& run,
                                  const uint8_t* book, float book_scale, const QueryWords& query, const int32_t* totals) {
  if (code_bits(run.code) == 5) {
    score_run<5, kHeads, false>(total, rows, ahead, live, run, book, book_scale, query, totals);
  } else {
    score_run<7, kHeads, false>(total, rows, ahead, live, run, book, book_scale, query, totals);
  }
}

// Up to four query heads of one KV head, ready to be scored: their words, and per run of widths their totals.
struct PreparedQuery {
  QueryWords words;
  Run runs[kMaxGroups];
  int32_t totals[kHeadsAtOnce * kMaxGroups];
  uint32_t n_runs;
};

template <int kHeads>
TQ_INLINE void prepare_query(PreparedQuery& out, const int16_t* query, const uint8_t* widths, uint32_t d) {
  out.n_runs = find_runs(widths, d / 16, out.runs);
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t i = 0; i < d; i += kLanes) out.words.put(h, i, load_i16(query + h * d + i));
  for (uint32_t r = 0; r < out.n_runs; ++r)
    for (int h = 0; h < kHeads; ++h) {
      int32_t total = 0;
      for (uint32_t g = out.runs[r].begin; g < out.runs[r].end; g += out.runs[r].step)
        for (uint32_t k = 16 * g; k < 16 * g + 16; ++k) total += query[h * d + k];
      out.totals[r * kHeads + h] = total;
    }
}

// All slots 0..count-1 of one page and KV head, for kHeads query heads. `next` is the block that will be read
// after this one.
template <int kHeads, bool kSmall>
TQ_KERNEL inline void score_page(const uint8_t* base, const uint8_t* next, const Layout& layout,
                                 const PreparedQuery& query, const uint8_t* levels, const float* book_scale,
                                 const float* step, uint32_t count, float* scores, size_t s) {
  const uint8_t* rows = base + layout.key_codes;
  const ptrdiff_t ahead = next - base;
  prefetch_rows(next + layout.key_scales, (2 * count + kRowBytes - 1) / kRowBytes);
  for (uint32_t slot = 0; slot < count; slot += kTileTokens) {
    const uint32_t live = smaller(kTileTokens, count - slot);
    alignas(kRowBytes) float total[kHeads * kTileTokens];
    for (uint32_t i = 0; i < kHeads * kTileTokens; i += kLanes) store(total + i, splat(0.0f));
    for (uint32_t r = 0; r < query.n_runs; ++r) {
      const Run& run = query.runs[r];
      const uint32_t row = book_row(run.code);
      const uint8_t* book = levels + 16 * row;
      const int32_t* totals = query.totals + r * kHeads;
      if (run.code == 4) {
        score_run<4, kHeads, kSmall>(total, rows, ahead, live, run, book, book_scale[row], query.words, totals);
      } else if (run.code == 3) {
        score_run<3, kHeads, kSmall>(total, rows, ahead, live, run, book, book_scale[row], query.words, totals);
      } else if (run.code == 2) {
        score_run<2, kHeads, kSmall>(total, rows, ahead, live, run, book, book_scale[row], query.words, totals);
      } else {
        score_pairs<kHeads>(total, rows, ahead, live, run, book, book_scale[row], query.words, totals);
      }
      rows += run.rows * kRowBytes;
    }
    for (uint32_t t = 0; t < live; t += kLanes) {
      const F32 key_scale = load_half_bytes(base + layout.key_scales + 2 * (slot + t));
      for (int h = 0; h < kHeads; ++h) {
        const F32 out = (load(total + h * kTileTokens + t) * key_scale) * splat(step[h]);
        if (live - t >= kLanes) {
          store(scores + h * s + slot + t, out);
        } else {
          store_n(scores + h * s + slot + t, out, live - t);
        }
      }
    }
  }
}

// <query, centre> of one float32 query and a page's float16 centre.
TQ_INLINE float centre_score(const float* query, const uint8_t* centre, uint32_t d) {
  F32 sum = splat(0.0f);
  for (uint32_t i = 0; i < d; i += kLanes) sum = sum + load(query + i) * load_half_bytes(centre + 2 * i);
  return fold(sum);
}

// The score of the page's centre onto the first `count` scores of each of kHeads rows, `s` apart.
template <int kHeads>
TQ_KERNEL inline void add_centre(const uint8_t* centre, const float* query, uint32_t d, uint32_t count, float* scores,
                                 size_t s) {
  for (int h = 0; h < kHeads; ++h) {
    const float shift = centre_score(query + size_t(h) * d, centre, d);
    for (uint32_t t = 0; t < count; ++t) scores[h * s + t] = scores[h * s + t] + shift;
  }
}

// kHeads query heads of one KV head over all pages.
template <int kHeads>
TQ_KERNEL inline void score_heads(const int16_t* query, const float* step, const float* centre_query, const uint8_t* widths, const uint8_t* levels,
                                  const float* book_scale, const uint32_t* pages, const Layout& layout,
                                  const uint8_t* pool, float* scores, uint32_t d, uint32_t e, uint32_t s, uint32_t kv_head,
                                  uint32_t n_tokens) {
  PreparedQuery prepared;
  prepare_query<kHeads>(prepared, query, widths, d);
  for (uint32_t start = 0, p = 0; start < n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < n_tokens ? p + 1 : p;
    const uint32_t count = smaller(layout.page_tokens, n_tokens - start);
    const uint8_t* base = pool + head_base(layout, pages[p], kv_head);
    score_page<kHeads, false>(base, pool + head_base(layout, pages[after], kv_head), layout, prepared, levels, book_scale,
                              step, count, scores + start, s);
    if (e) add_centre<kHeads>(base + layout.key_centres, centre_query, d, count, scores + start, s);
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

TQ_KERNEL inline void score_keys(const int16_t* query, const float* step, const float* centre_query,
                                 const uint8_t* widths, const uint8_t* levels,
                                 const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                 const uint8_t* pool, float* scores, uint32_t q, uint32_t d, uint32_t e, uint32_t, uint32_t,
                                 uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens,
                                 uint32_t offset) {
  const Layout layout = read_layout(layout_words);
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    score_for(heads)(query + size_t(row) * d, step + row, centre_query + size_t(row) * e, widths, levels, book_scale, pages, layout, pool,
                     scores + size_t(row) * s + offset, d, e, s, kv_head, n_tokens);
    row += heads;
  }
}

// The float32 oracle: centroids times query in channel order, tokens in lanes.
TQ_KERNEL inline void score_keys_f32(const float* query, const float* centre_query, const uint8_t* widths, const uint8_t* levels,
                                     const float* book_scale, const uint32_t* pages, const uint32_t* layout_words,
                                     const uint8_t* pool, float* scores, uint32_t q, uint32_t d, uint32_t e, uint32_t groups,
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
        const uint32_t code = group_code(widths, g), book = book_row(code);
        const uint8_t* rows = group_rows(tile, widths, g);
        for (uint32_t quad = 0; quad < 4; ++quad) {
          const U32 levels4 = slice_levels(rows, code, 4 * (in_page / kLanes % 2) + quad, levels + 16 * book);
          for (uint32_t k = 0; k < 4; ++k)
            total = total + splat(query[size_t(row) * d + 16 * g + 4 * quad + k]) *
                                centroid_of_byte(levels4, int(k), book_scale[book]);
        }
        tile += widths[g] * kRowBytes;
      }
      F32 out = (total * load_half_bytes(base + layout.key_scales + 2 * in_page)) * splat(scale);
      if (e) out = out + splat(centre_score(centre_query + size_t(row) * d, base + layout.key_centres, d));
      store_n(scores + size_t(row) * s + offset + slot, out, smaller(kLanes, n_tokens - slot));
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
