// The exact sum with AVX-512 VNNI, which multiplies unsigned bytes by signed bytes: each int16
// multiplier is 256 * high + low with low in -128..127, and the two parts are summed apart.
namespace tq {
namespace TQ_TARGET {

struct Quad {
  uint32_t high, low;
};
struct Acc {
  I32 high, low;
};
TQ_INLINE Quad make_quad(const int16_t* p) {
  Quad q{0, 0};
  for (int i = 0; i < 4; ++i) {
    const int32_t low = int8_t(uint8_t(p[i] & 255));
    const int32_t high = (int32_t(p[i]) - low) / 256;
    q.low |= uint32_t(uint8_t(low)) << (8 * i);
    q.high |= uint32_t(uint8_t(high)) << (8 * i);
  }
  return q;
}
TQ_INLINE Acc zero_acc() { return Acc{zero_i32(), zero_i32()}; }
TQ_INLINE void accumulate(Acc& acc, U32 bytes, Quad q) {
  acc.high = (I32)_mm512_dpbusd_epi32((__m512i)acc.high, (__m512i)bytes, (__m512i)splat_u32(q.high));
  acc.low = (I32)_mm512_dpbusd_epi32((__m512i)acc.low, (__m512i)bytes, (__m512i)splat_u32(q.low));
}
TQ_INLINE I32 finish(Acc acc) { return (I32)(((U32)acc.high << 8) + (U32)acc.low); }

}  // namespace TQ_TARGET
}  // namespace tq
