// What WebAssembly SIMD128 adds to wide.h and quarters.h.
// The wasmer 1.1.0 compiler overwrites the index operand of i8x16.swizzle, so an index vector must
// not be used again after the lookup; the kernels use each index once.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE U32 lookup16(Table table, U32 index) {
  const Quarter t = quarter<0>(table);
  return (U32)join(wasm_i8x16_swizzle(t, quarter<0>(index)), wasm_i8x16_swizzle(t, quarter<1>(index)),
                   wasm_i8x16_swizzle(t, quarter<2>(index)), wasm_i8x16_swizzle(t, quarter<3>(index)));
}
TQ_INLINE I32 madd16(U32 a, U32 b) {
  return join(wasm_i32x4_dot_i16x8(quarter<0>(a), quarter<0>(b)), wasm_i32x4_dot_i16x8(quarter<1>(a), quarter<1>(b)),
              wasm_i32x4_dot_i16x8(quarter<2>(a), quarter<2>(b)), wasm_i32x4_dot_i16x8(quarter<3>(a), quarter<3>(b)));
}

}  // namespace TQ_TARGET
}  // namespace tq
