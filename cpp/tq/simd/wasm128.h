// What WebAssembly SIMD128 adds to wide.h: four 128-bit registers per vector.
// The wasmer 1.1.0 compiler overwrites the index operand of i8x16.swizzle, so an index vector must
// not be used again after the lookup; the kernels use each index once.
namespace tq {
namespace TQ_TARGET {

typedef int32_t Quarter __attribute__((vector_size(16)));
typedef int32_t HalfVec __attribute__((vector_size(32)));
template <int k>
TQ_INLINE v128_t quarter(U32 x) {
  return (v128_t)__builtin_shufflevector(x, x, 4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3);
}
TQ_INLINE I32 join(v128_t a, v128_t b, v128_t c, v128_t d) {
  const HalfVec low = __builtin_shufflevector((Quarter)a, (Quarter)b, 0, 1, 2, 3, 4, 5, 6, 7);
  const HalfVec high = __builtin_shufflevector((Quarter)c, (Quarter)d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TQ_INLINE U32 lookup16(Table table, U32 index) {
  const v128_t t = quarter<0>(table);
  return (U32)join(wasm_i8x16_swizzle(t, quarter<0>(index)), wasm_i8x16_swizzle(t, quarter<1>(index)),
                   wasm_i8x16_swizzle(t, quarter<2>(index)), wasm_i8x16_swizzle(t, quarter<3>(index)));
}
TQ_INLINE I32 madd16(U32 a, U32 b) {
  return join(wasm_i32x4_dot_i16x8(quarter<0>(a), quarter<0>(b)), wasm_i32x4_dot_i16x8(quarter<1>(a), quarter<1>(b)),
              wasm_i32x4_dot_i16x8(quarter<2>(a), quarter<2>(b)), wasm_i32x4_dot_i16x8(quarter<3>(a), quarter<3>(b)));
}

}  // namespace TQ_TARGET
}  // namespace tq
