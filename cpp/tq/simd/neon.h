// What NEON adds to wide.h and quarters.h. Only what every ARMv8-A processor has: no dot-product
// extension, so that one binary runs on all of them.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE Quarter lookup_quarter(Quarter table, Quarter index) {
  return (Quarter)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
}
TQ_INLINE U32 lookup16(Table table, U32 index) {
  const Quarter t = quarter<0>(table);
  return (U32)join(lookup_quarter(t, quarter<0>(index)), lookup_quarter(t, quarter<1>(index)),
                   lookup_quarter(t, quarter<2>(index)), lookup_quarter(t, quarter<3>(index)));
}
// Eight exact products, then the sums of neighbours.
TQ_INLINE Quarter madd_quarter(Quarter a, Quarter b) {
  const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  return (Quarter)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
TQ_INLINE I32 madd16(U32 a, U32 b) {
  return join(madd_quarter(quarter<0>(a), quarter<0>(b)), madd_quarter(quarter<1>(a), quarter<1>(b)),
              madd_quarter(quarter<2>(a), quarter<2>(b)), madd_quarter(quarter<3>(a), quarter<3>(b)));
}

}  // namespace TQ_TARGET
}  // namespace tq
