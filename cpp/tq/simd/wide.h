// The primitives on 64-byte compiler vectors: one zmm, two ymm or four 128-bit registers. What the
// language cannot say (byte lookup, 16-bit multiply-add) is in the target's own header.
// Included once per SIMD target, with TQ_TARGET set.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kHeadsInPass = kHeadsAtOnce;

typedef float F32 __attribute__((vector_size(64)));
typedef uint32_t U32 __attribute__((vector_size(64)));
typedef int32_t I32 __attribute__((vector_size(64)));
typedef uint16_t U16x16 __attribute__((vector_size(32)));
typedef int16_t I16x16 __attribute__((vector_size(32)));
typedef uint8_t U8x16 __attribute__((vector_size(16)));

TQ_INLINE F32 splat(float x) { return F32{} + x; }
TQ_INLINE U32 splat_u32(uint32_t x) { return U32{} + x; }
TQ_INLINE F32 load(const float* p) { F32 r; __builtin_memcpy(&r, p, 64); return r; }
TQ_INLINE void store(float* p, F32 x) { __builtin_memcpy(p, &x, 64); }
TQ_INLINE U32 load_row(const uint8_t* p) { U32 r; __builtin_memcpy(&r, p, 64); return r; }
TQ_INLINE F32 max(F32 a, F32 b) { return a > b ? a : b; }
TQ_INLINE F32 min(F32 a, F32 b) { return a < b ? a : b; }
TQ_INLINE I32 zero_i32() { return I32{}; }
TQ_INLINE F32 to_f32(I32 a) { return __builtin_convertvector(a, F32); }
TQ_INLINE F32 to_f32(U32 a) { return __builtin_convertvector((I32)a, F32); }
TQ_INLINE I32 to_i32(F32 a) { return __builtin_convertvector(a, I32); }
TQ_INLINE U32 float_as_u32(F32 a) { return (U32)a; }
TQ_INLINE F32 u32_as_float(U32 a) { return (F32)a; }
TQ_INLINE U32 i32_as_u32(I32 a) { return (U32)a; }
TQ_INLINE I32 u32_as_i32(U32 a) { return (I32)a; }
TQ_INLINE F32 select_ge(F32 x, F32 y, F32 a, F32 b) { return x >= y ? a : b; }
TQ_INLINE U32 count_greater(U32 count, F32 x, F32 y) { return count - (U32)(x > y); }

#ifndef TQ_NATIVE_HALF  // x86 targets have instructions for what follows, in their own headers
TQ_INLINE F32 load_half(const uint16_t* p) {
  U16x16 h;
  __builtin_memcpy(&h, p, 32);
  const U32 bits = __builtin_convertvector(h, U32);
  const F32 magnitude = (F32)((bits & 0x7fffu) << 13) * 0x1p112f;
  return (F32)((bits & 0x8000u) << 16 | (U32)magnitude);
}

// Four floats, and the one that the lowest two bits of every lane name; the same targets look it up with an instruction.
struct Four {
  float v[4];
};
TQ_INLINE Four load_four(const float* p) { Four f; __builtin_memcpy(f.v, p, 16); return f; }
TQ_INLINE F32 look_up_four(const Four& four, U32 index) {
  const U32 first = (U32)((I32)(index << 31) >> 31), second = (U32)((I32)(index << 30) >> 31);
  const U32 low = ((U32)splat(four.v[1]) & first) | ((U32)splat(four.v[0]) & ~first);
  const U32 high = ((U32)splat(four.v[3]) & first) | ((U32)splat(four.v[2]) & ~first);
  return (F32)((high & second) | (low & ~second));
}
#endif

TQ_INLINE U32 load_u8(const uint8_t* p) {
  U8x16 narrow;
  __builtin_memcpy(&narrow, p, 16);
  return __builtin_convertvector(narrow, U32);
}
TQ_INLINE void store_u8(uint8_t* p, U32 x) {
  const U8x16 narrow = __builtin_convertvector(x, U8x16);
  __builtin_memcpy(p, &narrow, 16);
}
TQ_INLINE void store_row(uint8_t* p, U32 x) { __builtin_memcpy(p, &x, 64); }
TQ_INLINE I32 load_i32(const int32_t* p) { I32 r; __builtin_memcpy(&r, p, 64); return r; }
TQ_INLINE I32 load_i16(const int16_t* p) {
  I16x16 narrow;
  __builtin_memcpy(&narrow, p, 32);
  return __builtin_convertvector(narrow, I32);
}
TQ_INLINE void store_i16(int16_t* p, I32 x) {
  const I16x16 narrow = __builtin_convertvector(x, I16x16);
  __builtin_memcpy(p, &narrow, 32);
}

template <int h>
TQ_INLINE F32 swap_lanes(F32 x) {
  return __builtin_shufflevector(x, x, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h, 4 ^ h, 5 ^ h, 6 ^ h, 7 ^ h, 8 ^ h, 9 ^ h, 10 ^ h,
                                 11 ^ h, 12 ^ h, 13 ^ h, 14 ^ h, 15 ^ h);
}

// partner + x and partner - x are the butterfly's two outputs; the sign is a product with +-1, exact.
template <int h>
TQ_INLINE F32 butterfly(F32 x) {
  constexpr float s = -1.0f;
  const F32 sign = {0 & h ? s : 1, 1 & h ? s : 1, 2 & h ? s : 1,  3 & h ? s : 1,  4 & h ? s : 1,  5 & h ? s : 1,
                    6 & h ? s : 1, 7 & h ? s : 1, 8 & h ? s : 1,  9 & h ? s : 1,  10 & h ? s : 1, 11 & h ? s : 1,
                    12 & h ? s : 1, 13 & h ? s : 1, 14 & h ? s : 1, 15 & h ? s : 1};
  return swap_lanes<h>(x) + x * sign;
}

TQ_INLINE float fold(F32 x) {
  x = x + swap_lanes<8>(x);
  x = x + swap_lanes<4>(x);
  x = x + swap_lanes<2>(x);
  x = x + swap_lanes<1>(x);
  return x[0];
}

// The largest of 16 lanes; max does not depend on the order.
TQ_INLINE float lane_max(F32 x) {
  x = max(x, swap_lanes<8>(x));
  x = max(x, swap_lanes<4>(x));
  x = max(x, swap_lanes<2>(x));
  return max(x, swap_lanes<1>(x))[0];
}

TQ_INLINE int32_t lane_total(I32 x) {
  x = x + __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  x = x + __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0);
  return x[0] + x[1] + x[2] + x[3];
}

}  // namespace TQ_TARGET
}  // namespace tq
