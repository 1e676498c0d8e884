// Affine tiles (KIVI): a step and a minimum per channel and group of tokens for keys, per token and group of channels for
// values. The step joins the query or the weights before they become integers, so that the scans are those of the packed
// codes, with a book whose levels stand for 2 c - (2^bits - 1); the middle of a code's range is added in float32.
namespace tq {
namespace TQ_TARGET {

// Entries of the `form` argument: AffineForm in tq_core/kernels/forms.py.
struct AffineForm {
  uint32_t bits, group, codes, steps, minima;
};
TQ_INLINE AffineForm read_affine(const uint32_t* v) { return AffineForm{v[0], v[1], v[2], v[3], v[4]}; }

struct AffinePages {
  const uint8_t* pool;
  const uint32_t* pages;
  Layout layout;
  AffineForm form;
  uint32_t d, n_tokens;
  float scale;
};

constexpr float kHalfLevel = 0.5f;  // levels are doubled

// level_value of the entry for code c is 2 c - (2^bits - 1).
TQ_INLINE void affine_book(uint8_t* book, uint32_t bits) {
  for (uint32_t c = 0; c < 16; ++c) book[c] = uint8_t(128 + c - (1u << (bits - 1)));
}

// n float16 steps and minima to floats: the steps, and the middles of the codes' range.
TQ_KERNEL inline void read_affine_halves(const uint8_t* steps, const uint8_t* minima, uint32_t n, uint32_t bits, float* step,
                                         float* middle) {
  const F32 centre = splat(0.5f * float((1u << bits) - 1));
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F32 s = load_half_bytes(steps + 2 * i);
    store(step + i, s);
    store(middle + i, load_half_bytes(minima + 2 * i) + s * centre);
  }
}

// The steps below are small loops with functions of their own: wasmer 1.1.0 loses vectors that it has no register for.

// x * y to `out`; returns the largest magnitude.
TQ_KERNEL inline float multiply_rows(const float* x, const float* y, uint32_t n, float* out) {
  F32 most = splat(0.0f);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const F32 product = load(x + i) * load(y + i);
    most = max(most, magnitude(product));
    store(out + i, product);
  }
  return lane_max(most);
}

// The inner product of two rows.
TQ_KERNEL inline float dot_rows(const float* x, const float* y, uint32_t n) {
  F32 sum = splat(0.0f);
  for (uint32_t i = 0; i < n; i += kLanes) sum = sum + load(x + i) * load(y + i);
  return fold(sum);
}

// A query times the steps of one group of tokens, as integers of one head.
TQ_KERNEL inline void prepare_affine(PreparedQuery& out, int h, int heads, const float* moved, float largest) {
  const F32 inverse = splat(largest > kTiny ? kIntegerMax / largest : 0.0f);
  for (uint32_t r = 0; r < out.n_runs; ++r) {
    I32 total = zero_i32();
    for (uint32_t i = 16 * out.runs[r].begin; i < 16 * out.runs[r].end; i += kLanes) {
      const I32 x = round_within(load(moved + i) * inverse, kIntegerMax);
      total = total + x;
      out.words.put(h, i, x);
    }
    out.totals[r * heads + h] = lane_total(total);
  }
}

// One run over a tile.
template <int kBits, int kHeads>
TQ_KERNEL inline void score_affine_run(float* total, const uint8_t* rows, ptrdiff_t ahead, uint32_t live, const Run& run,
                                       const uint8_t* book, const QueryWords& words, const int32_t* totals) {
  score_run<kBits, kHeads, false>(total, rows, ahead, live, run, book, kHalfLevel, words, totals);
}

// The sums of a tile's first `live` tokens as scores of one query head.
TQ_KERNEL inline void finish_affine(const float* total, float unit, float bias, float scale, uint32_t live, float* scores) {
  for (uint32_t t = 0; t < live; t += kLanes) {
    const F32 out = (load(total + t) * splat(unit) + splat(bias)) * splat(scale);
    if (live - t >= kLanes) {
      store(scores + t, out);
    } else {
      store_n(scores + t, out, live - t);
    }
  }
}

// The first `count` slots of one page.
template <int kBits, int kHeads>
TQ_KERNEL inline void score_affine_page(const AffinePages& in, const uint8_t* base, const uint8_t* next, PreparedQuery& prepared,
                                        const uint8_t* book, const float* query, uint32_t count, float* scores, size_t s) {
  alignas(kRowBytes) float step[kMaxHeadDim], middle[kMaxHeadDim], total[kHeads * kTileTokens];
  float unit[kHeads], bias[kHeads];
  const uint8_t* rows = base + in.form.codes;
  for (uint32_t slot = 0; slot < count; slot += kTileTokens) {
    if (slot % in.form.group == 0) {
      const size_t at = size_t(slot / in.form.group) * in.d * 2;
      prefetch_rows(next + in.form.steps + at, in.d * 2 / kRowBytes + 1);
      prefetch_rows(next + in.form.minima + at, in.d * 2 / kRowBytes + 1);
      read_affine_halves(base + in.form.steps + at, base + in.form.minima + at, in.d, kBits, step, middle);
      for (int h = 0; h < kHeads; ++h) {
        alignas(kRowBytes) float moved[kMaxHeadDim];
        const float largest = multiply_rows(query + size_t(h) * in.d, step, in.d, moved);
        prepare_affine(prepared, h, kHeads, moved, largest);
        unit[h] = largest * (1.0f / kIntegerMax);
        bias[h] = dot_rows(query + size_t(h) * in.d, middle, in.d);
      }
    }
    const uint32_t live = smaller(kTileTokens, count - slot);
    for (uint32_t i = 0; i < kHeads * kTileTokens; i += kLanes) store(total + i, splat(0.0f));
    for (uint32_t r = 0; r < prepared.n_runs; ++r) {
      score_affine_run<kBits, kHeads>(total, rows, next - base, live, prepared.runs[r], book, prepared.words,
                                      prepared.totals + r * kHeads);
      rows += prepared.runs[r].rows * kRowBytes;
    }
    for (int h = 0; h < kHeads; ++h)
      finish_affine(total + h * kTileTokens, unit[h], bias[h], in.scale, live, scores + h * s + slot);
  }
}

template <int kHeads>
TQ_KERNEL inline void score_affine_heads(const AffinePages& in, uint32_t kv_head, const float* query, float* scores, size_t s) {
  PreparedQuery prepared;
  uint8_t widths[kMaxGroups], book[16];
  for (uint32_t g = 0; g < in.d / 16; ++g) widths[g] = uint8_t(in.form.bits);
  affine_book(book, in.form.bits);
  prepared.n_runs = find_runs(widths, in.d / 16, prepared.runs);
  const Layout& layout = in.layout;
  for (uint32_t start = 0, p = 0; start < in.n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < in.n_tokens ? p + 1 : p;
    const uint32_t count = smaller(layout.page_tokens, in.n_tokens - start);
    const uint8_t* base = in.pool + head_base(layout, in.pages[p], kv_head);
    const uint8_t* next = in.pool + head_base(layout, in.pages[after], kv_head);
    auto* run = in.form.bits == 4   ? score_affine_page<4, kHeads>
                : in.form.bits == 3 ? score_affine_page<3, kHeads>
                                    : score_affine_page<2, kHeads>;
    run(in, base, next, prepared, book, query, count, scores + start, s);
  }
}

TQ_INLINE decltype(&score_affine_heads<1>) score_affine_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return score_affine_heads<4>;
    if (heads == 3) return score_affine_heads<3>;
    if (heads == 2) return score_affine_heads<2>;
  }
  return score_affine_heads<1>;
}

TQ_KERNEL inline void score_affine(const float* query, const uint32_t* form, const uint32_t* pages,
                                   const uint32_t* layout_words, const uint8_t* pool, float* scores, uint32_t q, uint32_t d,
                                   uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset,
                                   float scale) {
  const AffinePages in{pool, pages, read_layout(layout_words), read_affine(form), d, n_tokens, scale};
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    score_affine_for(heads)(in, kv_head, query + size_t(row) * d, scores + size_t(row) * s + offset, s);
    row += heads;
  }
}

// One group of channels, from channel `c` on, over the first `count` slots of a page.
template <int kBits, int kHeads>
TQ_KERNEL inline void sum_affine_group(const AffinePages& in, const uint8_t* base, const uint8_t* next, const uint8_t* book,
                                       const float* step, const float* middle, const float* weights, size_t s,
                                       uint32_t count, uint32_t c, float* out) {
  const float keep[kHeadsAtOnce] = {1.0f, 1.0f, 1.0f, 1.0f};
  const uint32_t n_tiles = (count + kTileTokens - 1) / kTileTokens, padded = n_tiles * kTileTokens;
  PreparedWeights prepared;
  float bias[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    alignas(kRowBytes) float scaled[kMaxPageTokens];
    alignas(kRowBytes) float weight[kMaxPageTokens];
    for (uint32_t t = 0; t < padded; t += kLanes) {
      const uint32_t live = t < count ? count - t : 0;
      store(weight + t, live < kLanes ? load_n(weights + h * s + t, live, 0.0f) : load(weights + h * s + t));
    }
    const float largest = multiply_rows(weight, step, padded, scaled);
    quantize_weights(prepared, h, scaled, padded, largest, kIntegerMax);
    bias[h] = dot_rows(weight, middle, padded);
  }
  const uint32_t stride = in.d / 16 * kBits * kRowBytes, at = c / 16 * kBits * kRowBytes;
  sum_run<kBits, kHeads, false>(base + in.form.codes + at, next - base, n_tiles, stride, in.form.group / 16, book, kBits,
                                kHalfLevel, prepared, keep, out + c, in.d);
  for (int h = 0; h < kHeads; ++h)
    for (uint32_t i = c; i < c + in.form.group; i += kLanes)
      store(out + size_t(h) * in.d + i, load(out + size_t(h) * in.d + i) + splat(bias[h]));
}

template <int kHeads>
TQ_KERNEL inline void sum_affine_heads(const AffinePages& in, uint32_t kv_head, const float* weights, size_t s, float* out) {
  const Layout& layout = in.layout;
  const uint32_t groups = in.d / in.form.group, bits = in.form.bits;
  uint8_t book[16];
  affine_book(book, bits);
  alignas(kRowBytes) float steps[kMaxPageTokens * kMaxGroups], middles[kMaxPageTokens * kMaxGroups];
  for (uint32_t start = 0, p = 0; start < in.n_tokens; start += layout.page_tokens, ++p) {
    const uint32_t after = start + layout.page_tokens < in.n_tokens ? p + 1 : p;
    const uint32_t count = smaller(layout.page_tokens, in.n_tokens - start);
    const uint8_t* base = in.pool + head_base(layout, in.pages[p], kv_head);
    const uint8_t* next = in.pool + head_base(layout, in.pages[after], kv_head);
    const uint32_t held = layout.page_tokens * groups;
    prefetch_rows(next + in.form.steps, held * 2 / kRowBytes);
    prefetch_rows(next + in.form.minima, held * 2 / kRowBytes);
    read_affine_halves(base + in.form.steps, base + in.form.minima, held, bits, steps, middles);
    for (uint32_t g = 0; g < groups; ++g) {
      alignas(kRowBytes) float step[kMaxPageTokens], middle[kMaxPageTokens];
      for (uint32_t t = 0; t < layout.page_tokens; ++t) {
        step[t] = t < count ? steps[t * groups + g] : 0.0f;  // slots beyond may hold anything
        middle[t] = t < count ? middles[t * groups + g] : 0.0f;
      }
      auto* run = bits == 4 ? sum_affine_group<4, kHeads> : bits == 3 ? sum_affine_group<3, kHeads> : sum_affine_group<2, kHeads>;
      run(in, base, next, book, step, middle, weights + start, s, count, g * in.form.group, out);
    }
  }
}

TQ_INLINE decltype(&sum_affine_heads<1>) sum_affine_for(uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return sum_affine_heads<4>;
    if (heads == 3) return sum_affine_heads<3>;
    if (heads == 2) return sum_affine_heads<2>;
  }
  return sum_affine_heads<1>;
}

TQ_KERNEL inline void sum_affine(const float* weights, const uint32_t* form, const uint32_t* pages,
                                 const uint32_t* layout_words, const uint8_t* pool, float* out, uint32_t q, uint32_t s,
                                 uint32_t, uint32_t, uint32_t d, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset) {
  const AffinePages in{pool, pages, read_layout(layout_words), read_affine(form), d, n_tokens, 1.0f};
  const uint32_t group = q / n_kv_heads;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    sum_affine_for(heads)(in, kv_head, weights + size_t(row) * s + offset, s, out + size_t(row) * d);
    row += heads;
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
