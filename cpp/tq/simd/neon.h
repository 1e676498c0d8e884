// What NEON adds to wide.h: registers of 4 lanes. Only what every ARMv8-A processor has: no dot-product
// extension, so that one binary runs on all of them.
namespace tq {
namespace TQ_TARGET {

constexpr int kRegsInPass = 1;
constexpr bool kOneSliceLoops = false;
constexpr uint32_t kCopies = 1;

typedef uint32_t Reg __attribute__((vector_size(16)));
typedef int32_t RegI __attribute__((vector_size(16)));
typedef Reg Table;

TQ_INLINE Table load_table(const uint8_t* p) { return (Table)vld1q_u8(p); }
TQ_INLINE Reg lookup16(Table table, Reg index) { return (Reg)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index); }
// Eight exact products, then the sums of neighbours.
TQ_INLINE RegI madd16(Reg a, Reg b) {
  const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  return (RegI)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}

}  // namespace TQ_TARGET
}  // namespace tq
