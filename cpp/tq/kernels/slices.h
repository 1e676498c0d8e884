// Reading codes back out of packed rows: slice s of a tile is bits [kBits * s, kBits * (s + 1)) of
// every byte column, so a slice is one or two rows, shifted and masked.
namespace tq {
namespace TQ_TARGET {

// `rows` points at the byte column where the register begins.
template <int kBits, int kSlice>
TQ_INLINE Reg slice_codes(const uint8_t* rows) {
  constexpr int at = kBits * kSlice, shift = at % 8, kept = kBits < 8 - shift ? kBits : 8 - shift;
  constexpr uint32_t low = 0x01010101u * ((1u << kept) - 1);
  const Reg codes = (load_reg(rows + at / 8 * kRowBytes) >> shift) & every(low);
  if constexpr (kept == kBits) {
    return codes;
  } else {
    constexpr uint32_t high = 0x01010101u * (((1u << (kBits - kept)) - 1) << kept);
    return codes | ((load_reg(rows + (at / 8 + 1) * kRowBytes) << kept) & every(high));
  }
}

// A whole slice, code and place chosen at run time, as level bytes: for the float32 oracle, and for pair codes where lanes
// are scalar and nothing is gained by writing every slice out.
TQ_KERNEL inline void slice_bytes(uint8_t* out, const uint8_t* rows, uint32_t code, uint32_t slice, const uint8_t* book) {
  const uint32_t bits = code_bits(code), at = bits * slice, shift = at % 8, mask = (1u << bits) - 1;
  const uint8_t* next = rows + (shift + bits > 8 ? at / 8 + 1 : at / 8) * kRowBytes;
  rows += at / 8 * kRowBytes;
  const uint8_t* rule = code > 9 ? digit_rule(code) : nullptr;
  for (uint32_t i = 0; i < kRowBytes; ++i) {
    uint32_t index = ((uint32_t(rows[i]) | uint32_t(next[i]) << 8) >> shift) & mask;
    if (rule) {
      const uint32_t r = rule[index >> (bits - 4)];
      index = (r & 15) + (index & (r >> 4));
    }
    out[i] = book[code == 72 ? doubled_level(index) : index];
  }
}

TQ_INLINE U32 slice_levels(const uint8_t* rows, uint32_t code, uint32_t slice, const uint8_t* book) {
  uint8_t out[kRowBytes];
  slice_bytes(out, rows, code, slice, book);
  return load_row(out);
}

// From one group of a run to its next one: pair codes have their other coordinate between.
template <int kBits>
constexpr uint32_t kGroupStep = kBits > 4 ? 2 : 1;

// What turns a code's slices into level bytes: its book, and for a pair code the rule of its digit.
struct Levels {
  Table book, rule;
  uint32_t code;
  const uint8_t* plain;
};

template <int kBits>
TQ_INLINE Levels load_levels(const uint8_t* book, uint32_t code) {
  const Table table = load_table(book);
  if constexpr (kBits < 5) return Levels{table, table, code, book};
  const Table rule = load_table(digit_rule(code));
  if (code != 72) return Levels{table, rule, code, book};
  alignas(16) uint8_t doubled[16];
  for (uint32_t i = 0; i < 16; ++i) doubled[i] = book[doubled_level(i)];
  return Levels{load_table(doubled), rule, code, book};
}

// Slice kSlice as level bytes; one bit is its own level byte, from 5 bits on codes are pair codes. Every index is looked up once (see simd/wasm128.h).
template <int kBits, int kSlice>
TQ_INLINE Reg level_bytes(const Levels& levels, const uint8_t* rows) {
  if constexpr (kBits == 1) {
    return slice_codes<1, kSlice>(rows);
  } else if constexpr (kBits < 5) {
    return lookup16(levels.book, slice_codes<kBits, kSlice>(rows));
  } else if constexpr (kHeadsInPass == 1) {
    alignas(kRowBytes) uint8_t out[kRowBytes];
    slice_bytes(out, rows, levels.code, kSlice, levels.plain);
    return load_reg(out);
  } else {
    const Reg codes = slice_codes<kBits, kSlice>(rows);
    const Reg rule = lookup16(levels.rule, (codes >> (kBits - 4)) & every(0x0f0f0f0fu));
    const Reg lower = codes & ((rule >> 4) & every(0x0f0f0f0fu));
    return lookup16(levels.book, (rule & every(0x0f0f0f0fu)) | lower);
  }
}

// The rows of group g, where `tile` leads to the first row that no earlier group has: a pair's second group shares them.
TQ_INLINE const uint8_t* group_rows(const uint8_t* tile, const uint8_t* widths, uint32_t g) {
  return widths[g] ? tile : tile - widths[g - 1] * kRowBytes;
}

// One zero per index, to fill arrays whose length is a pack.
template <int>
TQ_INLINE Acc no_sum() { return zero_acc(); }
template <int>
TQ_INLINE F32 no_weight() { return splat(0.0f); }

// The multipliers of up to four query heads, `kWords` words of four each: two planes of words, apart so
// that every one is read from memory straight into all lanes.
template <uint32_t kWords>
struct alignas(kRowBytes) Multipliers {
  uint32_t first[kHeadsAtOnce * kWords * kCopies], second[kHeadsAtOnce * kWords * kCopies];

  // Multipliers i .. i + 15 of one head.
  TQ_INLINE_MEMBER void put(uint32_t head, uint32_t i, I32 x) {
    const uint32_t at = (head * kWords + i / 4) * kCopies;
    store_quads(x, first + at, second + at);
  }
};

// Add to acc[head * kRegsInPass + r] the bytes of register r times word `at` of the head's multipliers, for every
// kIndex = head * kRegsInPass + r: constant indices let the sums live in registers. kSmall promises multipliers
// that fit in int8.
template <bool kSmall, uint32_t kWords, int... kIndex>
TQ_INLINE void accumulate_all(Acc* acc, const Reg* bytes, const Multipliers<kWords>& m, uint32_t at, Indices<kIndex...>) {
  (accumulate<kSmall>(acc[kIndex], bytes[kIndex % kRegsInPass], m.first + (kIndex / kRegsInPass * kWords + at) * kCopies,
                      m.second + (kIndex / kRegsInPass * kWords + at) * kCopies),
   ...);
}

// The exact sum of (2u - 255) * multiplier from the sum of u * multiplier: twice the one, less
// 255 times the multipliers' total; 2u - 1 for one bit. Taken modulo 2^32, where the result fits.
template <int kBits>
TQ_INLINE F32 signed_sum(const int32_t* sums, int32_t total) {
  const U32 twice = i32_as_u32(load_i32(sums)) << 1;
  return to_f32(u32_as_i32(twice + splat_u32(0u - (kBits == 1 ? 1u : 255u) * uint32_t(total))));
}

// Byte k (0..3) of every lane as a centroid.
TQ_INLINE F32 centroid_of_byte(U32 levels, int k, float scale) {
  const U32 u = (levels >> (8 * k)) & splat_u32(255u);
  return to_f32(u32_as_i32((u << 1) + splat_u32(0u - 255u))) * splat(scale);
}

// Fetch rows that the same place of the next page holds, while these are being read.
TQ_INLINE void prefetch_rows(const uint8_t* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) __builtin_prefetch(p + i * kRowBytes);
}

TQ_INLINE F32 magnitude(F32 x) { return u32_as_float(float_as_u32(x) & splat_u32(0x7fffffffu)); }

// The nearest integers, ties to even, of magnitude at most `limit`.
TQ_INLINE I32 round_within(F32 x, float limit) {
  x = min(max(x, splat(-limit)), splat(limit));
  return to_i32((x + splat(kRoundMagic)) - splat(kRoundMagic));
}

// A row of floats to integers of magnitude at most `limit`; returns the step. n is a multiple of 16.
TQ_INLINE float quantize_symmetric(const float* x, int16_t* out, uint32_t n, float limit) {
  F32 most = splat(0.0f);
  for (uint32_t i = 0; i < n; i += kLanes) most = max(most, magnitude(load(x + i)));
  const float largest = lane_max(most);
  const float inverse = largest > kTiny ? limit / largest : 0.0f;
  for (uint32_t i = 0; i < n; i += kLanes) store_i16(out + i, round_within(load(x + i) * splat(inverse), limit));
  return largest * (1.0f / limit);
}

}  // namespace TQ_TARGET
}  // namespace tq
