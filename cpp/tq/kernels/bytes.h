// Byte rows: keys and values whose codes are bytes, nibbles or 8-bit floats, one token's row after another's. A row is
// decoded to float32 once for all the query heads of its KV head, then goes on as a float16 row does.
namespace tq {
namespace TQ_TARGET {

enum ByteKind : uint32_t { kBytes = 0, kNibbles = 1, kFloats = 2 };
enum Scaling : uint32_t { kPlain = 0, kStep = 1, kMinimum = 2, kInverse = 3, kZero = 4 };

// Entries of the `form` argument: ByteForm in tq_core/kernels/forms.py.
struct Strided {
  uint32_t at, row, group;
};
struct ByteForm {
  uint32_t kind, scaling, channels, group, first, second;
  Strided code, step, minimum;
};
TQ_INLINE Strided read_strided(const uint32_t* v) { return Strided{v[0], v[1], v[2]}; }
TQ_INLINE ByteForm read_bytes(const uint32_t* v) {
  return ByteForm{v[0], v[1], v[2], v[3], v[4], v[5], read_strided(v + 6), read_strided(v + 9), read_strided(v + 12)};
}

struct BytePages {
  const uint8_t* pool;
  const uint32_t* pages;
  Layout layout;
  ByteForm form;
  uint32_t d, n_tokens;
  float scale;
};

TQ_INLINE const uint8_t* place(const uint8_t* base, const Strided& part, uint32_t slot, uint32_t group) {
  return base + part.at + size_t(slot) * part.row + size_t(group) * part.group;
}

TQ_INLINE float half_value(const uint8_t* p) {
  const uint32_t h = uint32_t(p[0]) | uint32_t(p[1]) << 8;
  return bits_float((h & 0x8000u) << 16 | float_bits(bits_float((h & 0x7fffu) << 13) * 0x1p112f));
}

// The step of one token's group, and what is added after it.
TQ_INLINE void read_scale(const uint8_t* base, const ByteForm& form, uint32_t slot, uint32_t group, float* step, float* low) {
  *step = 1.0f;
  *low = 0.0f;
  if (form.scaling == kPlain) return;
  *step = half_value(place(base, form.step, slot, group));
  if (form.scaling == kStep) return;
  *low = half_value(place(base, form.minimum, slot, group));
  if (form.scaling == kInverse) *step = 1.0f / (*step > 0.0f ? *step : 1.0f);
  if (form.scaling == kZero) *low = 0.0f - *low * *step;
}

// What turns stored bytes into numbers, in all lanes.
struct Decoder {
  U32 first;
  F32 second;
  U32 power;
  int shift;
};

constexpr float kIntegerBase = 8388608.0f;  // 2^23: its last bits count ones

// The entries are below 256, or 23 and 128 for floats: see the checks of forms.py.
TQ_INLINE Decoder make_decoder(const ByteForm& form) {
  if (form.kind == kFloats)
    return Decoder{splat_u32(0), splat(bits_float((1 + form.second) << 23)), splat_u32(form.second << 23), int(form.first)};
  return Decoder{splat_u32(float_bits(kIntegerBase) | form.first), splat(kIntegerBase + float(form.second)), splat_u32(0), 0};
}

// Sixteen stored bytes; kHalf says which of a block's nibbles. No step has a subnormal operand, which some machines take slowly.
template <int kKind, int kHalf>
TQ_INLINE F32 decode(const Decoder& with, U32 x) {
  if constexpr (kKind == kFloats) {
    // With the exponent raised, numbers below 2^(second - 126) are subnormal ones, whose leading bit is not there.
    const F32 y = u32_as_float(((x & splat_u32(127u)) << with.shift) + with.power);
    const F32 size = select_ge(y, with.second, y, (y + y) - with.second);
    return u32_as_float(float_as_u32(size) | (x & splat_u32(128u)) << 24);
  } else {
    if constexpr (kKind == kNibbles) x = kHalf ? x >> 4 : x & splat_u32(15u);
    return u32_as_float(x ^ with.first) - with.second;
  }
}

// Sixteen bytes of which the row may have `held` only; zeros for the rest.
TQ_INLINE U32 load_held(const uint8_t* p, uint32_t held) {
  if (held >= kLanes) return load_u8(p);
  uint8_t bytes[kLanes] = {};
  for (uint32_t i = 0; i < held; ++i) bytes[i] = p[i];
  return load_u8(bytes);
}

template <int kKind>
constexpr uint32_t kPerLoad = kKind == kNibbles ? 2 * kLanes : kLanes;  // channels in 16 bytes

// Bytes that the row still has at channel i.
template <int kKind>
TQ_INLINE uint32_t bytes_held(const ByteForm& form, uint32_t i) {
  return kKind == kNibbles ? (form.channels - i) / 2 : kLanes;
}

template <int kHeads>
TQ_INLINE void add_products(F32* sum, const float* query, size_t d, F32 x) {
  sum[0] = sum[0] + load(query) * x;
  if constexpr (kHeads > 1) sum[1] = sum[1] + load(query + d) * x;
  if constexpr (kHeads > 2) sum[2] = sum[2] + load(query + 2 * d) * x;
  if constexpr (kHeads > 3) sum[3] = sum[3] + load(query + 3 * d) * x;
}

template <int kHeads>
TQ_INLINE void add_weighted(F32* sum, const float* weights, size_t s, F32 x) {
  sum[0] = sum[0] + splat(weights[0]) * x;
  if constexpr (kHeads > 1) sum[1] = sum[1] + splat(weights[s]) * x;
  if constexpr (kHeads > 2) sum[2] = sum[2] + splat(weights[2 * s]) * x;
  if constexpr (kHeads > 3) sum[3] = sum[3] + splat(weights[3 * s]) * x;
}

// kHeads query heads of one KV head over one page's first `count` rows. kScaling: 0 none,
// 1 a step (1 where nothing is stored), 2 something added too.
template <int kKind, int kScaling, int kHeads>
TQ_KERNEL inline void score_byte_rows(const BytePages& in, const uint8_t* base, const uint8_t* next, const float* query,
                                      uint32_t count, float* scores, size_t s) {
  const ByteForm& form = in.form;
  const Decoder with = make_decoder(form);
  const ptrdiff_t ahead = next - base;
  const uint32_t lines = form.code.row / kRowBytes + 1;
  for (uint32_t t = 0; t < count; ++t) {
    F32 sum[kHeads];
    for (int h = 0; h < kHeads; ++h) sum[h] = splat(0.0f);
    prefetch_rows(place(base, form.code, t, 0) + ahead, lines);
    for (uint32_t start = 0, g = 0; start < in.d; start += form.group, ++g) {
      float step, low;
      read_scale(base, form, t, g, &step, &low);
      const uint8_t* codes = place(base, form.code, t, g);
      const uint32_t end = smaller(start + form.group, in.d);
      for (uint32_t i = start; i < end; i += kPerLoad<kKind>, codes += kLanes) {
        const U32 x = load_held(codes, bytes_held<kKind>(form, i));
        F32 y = decode<kKind, 0>(with, x);
        if constexpr (kScaling > 0) y = y * splat(step);
        if constexpr (kScaling > 1) y = y + splat(low);
        add_products<kHeads>(sum, query + i, in.d, y);
        if constexpr (kKind == kNibbles) {
          y = decode<kKind, 1>(with, x);
          if constexpr (kScaling > 0) y = y * splat(step);
          if constexpr (kScaling > 1) y = y + splat(low);
          add_products<kHeads>(sum, query + i + kLanes, in.d, y);
        }
      }
    }
    for (int h = 0; h < kHeads; ++h) scores[h * s + t] = fold(sum[h]) * in.scale;
  }
}

// kVectors times sixteen channels of one group, `codes` at the first row's bytes of them, over `count` rows: of nibbles
// half kHalf, or both; of bytes neighbours.
template <int kKind, int kHalf, int kVectors, int kScaling, int kHeads>
TQ_INLINE void sum_byte_channels(const ByteForm& form, const Decoder& with, const uint8_t* codes, ptrdiff_t ahead,
                                 uint32_t held, const float* step, const float* low, const float* weights, size_t s,
                                 uint32_t count, size_t d, float* out) {
  F32 sum[kHeads], next[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    sum[h] = load(out + h * d);
    next[h] = kVectors > 1 ? load(out + h * d + kLanes) : splat(0.0f);
  }
  for (uint32_t t = 0; t < count; ++t, codes += form.code.row) {
    if (ahead) prefetch_rows(codes + ahead, form.code.row / kRowBytes + 1);
    const U32 x = load_held(codes, held);
    F32 y = decode<kKind, kHalf>(with, x);
    if constexpr (kScaling > 0) y = y * splat(step[t]);
    if constexpr (kScaling > 1) y = y + splat(low[t]);
    add_weighted<kHeads>(sum, weights + t, s, y);
    if constexpr (kVectors > 1) {
      y = decode<kKind, 1>(with, kKind == kNibbles ? x : load_u8(codes + kLanes));
      if constexpr (kScaling > 0) y = y * splat(step[t]);
      if constexpr (kScaling > 1) y = y + splat(low[t]);
      add_weighted<kHeads>(next, weights + t, s, y);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    store(out + h * d, sum[h]);
    if constexpr (kVectors > 1) store(out + h * d + kLanes, next[h]);
  }
}

// Two vectors in a pass, where there are registers for their sums: each sum waits for its last addition.
constexpr bool kPairs = kRegsInPass > 1;

template <int kKind, int kScaling, int kHeads>
TQ_KERNEL inline void sum_byte_rows(const BytePages& in, const uint8_t* base, const uint8_t* next, const float* weights,
                                    uint32_t count, float* out, size_t s) {
  const ByteForm& form = in.form;
  const Decoder with = make_decoder(form);
  for (uint32_t start = 0, g = 0; start < in.d; start += form.group, ++g) {
    float step[kMaxPageTokens], low[kMaxPageTokens];
    if constexpr (kScaling > 0)
      for (uint32_t t = 0; t < count; ++t) read_scale(base, form, t, g, step + t, low + t);
    const uint8_t* codes = place(base, form.code, 0, g);
    const uint32_t end = smaller(start + form.group, in.d);
    for (uint32_t i = start; i < end;) {
      const uint32_t held = bytes_held<kKind>(form, i);
      const ptrdiff_t ahead = i ? 0 : next - base;
      if constexpr (kPairs) if (i + 2 * kLanes <= end) {
        sum_byte_channels<kKind, 0, 2, kScaling, kHeads>(form, with, codes, ahead, held, step, low, weights, s, count, in.d, out + i);
        codes += kKind == kNibbles ? kLanes : 2 * kLanes;
        i += 2 * kLanes;
        continue;
      }
      sum_byte_channels<kKind, 0, 1, kScaling, kHeads>(form, with, codes, ahead, held, step, low, weights, s, count, in.d, out + i);
      i += kLanes;
      if constexpr (kKind == kNibbles) {
        sum_byte_channels<kKind, 1, 1, kScaling, kHeads>(form, with, codes, 0, held, step, low, weights, s, count, in.d, out + i);
        i += kLanes;
      }
      codes += kLanes;
    }
  }
}

typedef void ScoreRows(const BytePages&, const uint8_t*, const uint8_t*, const float*, uint32_t, float*, size_t);

template <bool kScores, int kKind, int kScaling, int kHeads>
TQ_INLINE ScoreRows* byte_loop() {
  if constexpr (kScores) return score_byte_rows<kKind, kScaling, kHeads>;
  else return sum_byte_rows<kKind, kScaling, kHeads>;
}

template <bool kScores, int kHeads>
TQ_INLINE ScoreRows* byte_loop_of(const ByteForm& form) {
  const bool shifted = form.scaling >= kMinimum;
  if (form.kind == kFloats) return byte_loop<kScores, kFloats, 0, kHeads>();
  if (form.kind == kBytes) return shifted ? byte_loop<kScores, kBytes, 2, kHeads>() : byte_loop<kScores, kBytes, 1, kHeads>();
  return shifted ? byte_loop<kScores, kNibbles, 2, kHeads>() : byte_loop<kScores, kNibbles, 1, kHeads>();
}

template <bool kScores>
TQ_INLINE ScoreRows* byte_loop_for(const ByteForm& form, uint32_t heads) {
  if constexpr (kHeadsInPass > 1) {
    if (heads == 4) return byte_loop_of<kScores, 4>(form);
    if (heads == 3) return byte_loop_of<kScores, 3>(form);
    if (heads == 2) return byte_loop_of<kScores, 2>(form);
  }
  return byte_loop_of<kScores, 1>(form);
}

// All query heads and pages: rows of `read` floats in (queries, or weights from the first token on), of `written` out.
template <bool kScores>
TQ_INLINE void byte_pages(const BytePages& in, uint32_t q, uint32_t n_kv_heads, const float* x, size_t read, float* y,
                          size_t written, size_t s) {
  const uint32_t group = q / n_kv_heads, per = in.layout.page_tokens;
  for (uint32_t row = 0; row < q;) {
    const uint32_t kv_head = row / group;
    const uint32_t heads = smaller(kHeadsInPass, (kv_head + 1) * group - row);
    ScoreRows* loop = byte_loop_for<kScores>(in.form, heads);
    for (uint32_t start = 0, p = 0; start < in.n_tokens; start += per, ++p) {
      const uint32_t after = start + per < in.n_tokens ? p + 1 : p, count = smaller(per, in.n_tokens - start);
      const uint8_t* base = in.pool + head_base(in.layout, in.pages[p], kv_head);
      const uint8_t* next = in.pool + head_base(in.layout, in.pages[after], kv_head);
      loop(in, base, next, x + row * read + (kScores ? 0 : start), count, y + row * written + (kScores ? start : 0), s);
    }
    row += heads;
  }
}

TQ_KERNEL inline void score_bytes(const float* query, const uint32_t* form, const uint32_t* pages,
                                  const uint32_t* layout_words, const uint8_t* pool, float* scores, uint32_t q, uint32_t d,
                                  uint32_t, uint32_t, uint32_t s, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset,
                                  float scale) {
  const BytePages in{pool, pages, read_layout(layout_words), read_bytes(form), d, n_tokens, scale};
  byte_pages<true>(in, q, n_kv_heads, query, d, scores + offset, s, s);
}

TQ_KERNEL inline void sum_bytes(const float* weights, const uint32_t* form, const uint32_t* pages,
                                const uint32_t* layout_words, const uint8_t* pool, float* out, uint32_t q, uint32_t s,
                                uint32_t, uint32_t, uint32_t d, uint32_t n_kv_heads, uint32_t n_tokens, uint32_t offset) {
  const BytePages in{pool, pages, read_layout(layout_words), read_bytes(form), d, n_tokens, 1.0f};
  byte_pages<false>(in, q, n_kv_heads, weights + offset, s, out, d, s);
}

}  // namespace TQ_TARGET
}  // namespace tq
