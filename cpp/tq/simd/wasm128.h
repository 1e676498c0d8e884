// What WebAssembly SIMD128 adds to wide.h: registers of 4 lanes.
// The wasmer 1.1.0 compiler overwrites the index operand of i8x16.swizzle, so an index vector must
// not be used again after the lookup; the kernels use each index once.
namespace tq {
namespace TQ_TARGET {

constexpr int kRegsInPass = 1;
constexpr bool kOneSliceLoops = true;
constexpr uint32_t kCopies = 4;

typedef uint32_t Reg __attribute__((vector_size(16)));
typedef int32_t RegI __attribute__((vector_size(16)));
typedef Reg Table;

TQ_INLINE Table load_table(const uint8_t* p) { return (Table)wasm_v128_load(p); }
TQ_INLINE Reg lookup16(Table table, Reg index) { return (Reg)wasm_i8x16_swizzle((v128_t)table, (v128_t)index); }
TQ_INLINE RegI madd16(Reg a, Reg b) { return (RegI)wasm_i32x4_dot_i16x8((v128_t)a, (v128_t)b); }

}  // namespace TQ_TARGET
}  // namespace tq
