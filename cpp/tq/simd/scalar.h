// Every primitive, one lane at a time: the definition that the SIMD targets must match.
// Included once per scalar target, inside no namespace, with TQ_TARGET set.
namespace tq {
namespace TQ_TARGET {

// Query heads in one pass over a KV head's codes: registers decide, and one lane at a time nothing is gained.
constexpr uint32_t kHeadsInPass = 1;
constexpr bool kSmallIsFaster = false;

struct F32 {
  float v[kLanes];
};
struct U32 {
  uint32_t v[kLanes];
};
struct I32 {
  int32_t v[kLanes];
};

#define TQ_EACH for (uint32_t i = 0; i < kLanes; ++i)
TQ_INLINE F32 splat(float x) { F32 r; TQ_EACH r.v[i] = x; return r; }
TQ_INLINE U32 splat_u32(uint32_t x) { U32 r; TQ_EACH r.v[i] = x; return r; }
TQ_INLINE F32 load(const float* p) { F32 r; TQ_EACH r.v[i] = p[i]; return r; }
TQ_INLINE void store(float* p, F32 x) { TQ_EACH p[i] = x.v[i]; }
TQ_INLINE U32 load_row(const uint8_t* p) { U32 r; __builtin_memcpy(r.v, p, 64); return r; }
TQ_INLINE F32 operator+(F32 a, F32 b) { TQ_EACH a.v[i] = a.v[i] + b.v[i]; return a; }
TQ_INLINE F32 operator-(F32 a, F32 b) { TQ_EACH a.v[i] = a.v[i] - b.v[i]; return a; }
TQ_INLINE F32 operator*(F32 a, F32 b) { TQ_EACH a.v[i] = a.v[i] * b.v[i]; return a; }
TQ_INLINE F32 max(F32 a, F32 b) { TQ_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return a; }
TQ_INLINE F32 min(F32 a, F32 b) { TQ_EACH a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i]; return a; }
TQ_INLINE U32 operator&(U32 a, U32 b) { TQ_EACH a.v[i] &= b.v[i]; return a; }
TQ_INLINE U32 operator^(U32 a, U32 b) { TQ_EACH a.v[i] ^= b.v[i]; return a; }
TQ_INLINE U32 operator|(U32 a, U32 b) { TQ_EACH a.v[i] |= b.v[i]; return a; }
TQ_INLINE U32 operator+(U32 a, U32 b) { TQ_EACH a.v[i] += b.v[i]; return a; }
TQ_INLINE U32 operator<<(U32 a, int n) { TQ_EACH a.v[i] <<= n; return a; }
TQ_INLINE U32 operator>>(U32 a, int n) { TQ_EACH a.v[i] >>= n; return a; }
TQ_INLINE I32 operator+(I32 a, I32 b) { TQ_EACH a.v[i] = int32_t(uint32_t(a.v[i]) + uint32_t(b.v[i])); return a; }
TQ_INLINE I32 zero_i32() { I32 r; TQ_EACH r.v[i] = 0; return r; }
TQ_INLINE F32 to_f32(I32 a) { F32 r; TQ_EACH r.v[i] = float(a.v[i]); return r; }
TQ_INLINE F32 to_f32(U32 a) { F32 r; TQ_EACH r.v[i] = float(int32_t(a.v[i])); return r; }
TQ_INLINE I32 to_i32(F32 a) { I32 r; TQ_EACH r.v[i] = int32_t(a.v[i]); return r; }
TQ_INLINE U32 float_as_u32(F32 a) { U32 r; TQ_EACH r.v[i] = float_bits(a.v[i]); return r; }
TQ_INLINE F32 u32_as_float(U32 a) { F32 r; TQ_EACH r.v[i] = bits_float(a.v[i]); return r; }
TQ_INLINE U32 i32_as_u32(I32 a) { U32 r; TQ_EACH r.v[i] = uint32_t(a.v[i]); return r; }
TQ_INLINE I32 u32_as_i32(U32 a) { I32 r; TQ_EACH r.v[i] = int32_t(a.v[i]); return r; }

// a where x >= y, else b.
TQ_INLINE F32 select_ge(F32 x, F32 y, F32 a, F32 b) { TQ_EACH a.v[i] = x.v[i] >= y.v[i] ? a.v[i] : b.v[i]; return a; }
// count + 1 where x > y.
TQ_INLINE U32 count_greater(U32 count, F32 x, F32 y) { TQ_EACH count.v[i] += x.v[i] > y.v[i]; return count; }

// Sixteen halves to floats; exact, subnormals included.
TQ_INLINE F32 load_half(const uint16_t* p) {
  F32 r;
  TQ_EACH r.v[i] = bits_float(uint32_t(p[i] & 0x8000u) << 16 | float_bits(bits_float(uint32_t(p[i] & 0x7fffu) << 13) * 0x1p112f));
  return r;
}

// Lane i with lane i ^ h: sum in the lower of the two, difference in the upper (h = 1, 2, 4, 8).
template <int h>
TQ_INLINE F32 butterfly(F32 x) {
  F32 r;
  TQ_EACH r.v[i] = (i & h) ? x.v[i ^ h] - x.v[i] : x.v[i] + x.v[i ^ h];
  return r;
}

// The 16 lanes folded 8, 4, 2, 1 apart.
TQ_INLINE float fold(F32 x) {
  for (uint32_t half = 8; half; half /= 2)
    for (uint32_t i = 0; i < half; ++i) x.v[i] = x.v[i] + x.v[i + half];
  return x.v[0];
}

// A 16-entry byte table, and a lookup of 64 byte indices below 16.
struct Table {
  uint8_t v[16];
};
TQ_INLINE Table load_table(const uint8_t* p) { Table t; __builtin_memcpy(t.v, p, 16); return t; }
TQ_INLINE U32 lookup16(Table table, U32 index) {
  U32 r;
  TQ_EACH {
    const uint32_t x = index.v[i];
    r.v[i] = uint32_t(table.v[x & 15]) | uint32_t(table.v[x >> 8 & 15]) << 8 | uint32_t(table.v[x >> 16 & 15]) << 16 |
             uint32_t(table.v[x >> 24 & 15]) << 24;
  }
  return r;
}

// Four floats, and the one that the lowest two bits of every lane name.
struct Four {
  float v[4];
};
TQ_INLINE Four load_four(const float* p) { Four f; __builtin_memcpy(f.v, p, 16); return f; }
TQ_INLINE F32 look_up_four(const Four& four, U32 index) { F32 r; TQ_EACH r.v[i] = four.v[index.v[i] & 3]; return r; }

// Sixteen bytes, and a whole row, from memory and to it.
TQ_INLINE U32 load_u8(const uint8_t* p) { U32 r; TQ_EACH r.v[i] = p[i]; return r; }
TQ_INLINE void store_u8(uint8_t* p, U32 x) { TQ_EACH p[i] = uint8_t(x.v[i]); }
TQ_INLINE void store_row(uint8_t* p, U32 x) { __builtin_memcpy(p, x.v, 64); }

// Sixteen integers, from memory and to it; int16 where each fits.
TQ_INLINE I32 load_i32(const int32_t* p) { I32 r; TQ_EACH r.v[i] = p[i]; return r; }
TQ_INLINE I32 load_i16(const int16_t* p) { I32 r; TQ_EACH r.v[i] = p[i]; return r; }
TQ_INLINE void store_i16(int16_t* p, I32 x) { TQ_EACH p[i] = int16_t(x.v[i]); }

TQ_INLINE float lane_max(F32 x) {
  TQ_EACH x.v[0] = x.v[i] > x.v[0] ? x.v[i] : x.v[0];
  return x.v[0];
}
TQ_INLINE int32_t lane_total(I32 x) {
  uint32_t total = 0;
  TQ_EACH total += uint32_t(x.v[i]);
  return int32_t(total);
}

// What a scan keeps its sums in: here, a whole vector.
typedef U32 Reg;
typedef I32 RegI;
constexpr uint32_t kRegBytes = 64, kRegLanes = kLanes;
constexpr int kRegsInPass = 1;
constexpr bool kOneSliceLoops = false;
constexpr uint32_t kCopies = 1;
TQ_INLINE Reg load_reg(const uint8_t* p) { return load_row(p); }
TQ_INLINE void store_reg(int32_t* p, RegI x) { TQ_EACH p[i] = x.v[i]; }
TQ_INLINE Reg every(uint32_t x) { return splat_u32(x); }
// The table's byte for the number below 16 in every lane.
TQ_INLINE U32 lookup_lanes(Table table, U32 index) { TQ_EACH index.v[i] = table.v[index.v[i]]; return index; }

// Multipliers of a lane's four bytes: int16 values taken four at a time as two words, one in each of two
// planes (store_quads: sixteen values, four words each), and the running exact sum of byte * multiplier.
struct Acc {
  I32 sum;
};
TQ_INLINE Acc zero_acc() { return Acc{zero_i32()}; }
TQ_INLINE void store_quads(I32 x, uint32_t* first, uint32_t* second) {
  for (uint32_t k = 0; k < 4; ++k) {
    first[k] = (uint32_t(x.v[4 * k]) & 0xffffu) | uint32_t(x.v[4 * k + 2]) << 16;
    second[k] = (uint32_t(x.v[4 * k + 1]) & 0xffffu) | uint32_t(x.v[4 * k + 3]) << 16;
  }
}
template <bool kSmall>
TQ_INLINE void accumulate(Acc& acc, Reg bytes, const uint32_t* first, const uint32_t* second) {
  const int32_t q0 = int16_t(*first & 0xffff), q1 = int16_t(*second & 0xffff);
  const int32_t q2 = int16_t(*first >> 16), q3 = int16_t(*second >> 16);
  TQ_EACH {
    const uint32_t x = bytes.v[i];
    acc.sum.v[i] += int32_t(x & 255) * q0 + int32_t(x >> 8 & 255) * q1 + int32_t(x >> 16 & 255) * q2 + int32_t(x >> 24) * q3;
  }
}
TQ_INLINE RegI finish(Acc acc) { return acc.sum; }
#undef TQ_EACH

}  // namespace TQ_TARGET
}  // namespace tq
