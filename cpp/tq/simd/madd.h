// The exact sum of byte * int16 products where the machine multiplies 16-bit pairs into 32 bits:
// bytes 0 and 2 of each lane against one pair of multipliers, bytes 1 and 3 against another.
// madd16(a, b) is the target's: a.low * b.low + a.high * b.high in every 32-bit lane.
namespace tq {
namespace TQ_TARGET {

struct Quad {
  uint32_t even, odd;
};
struct Acc {
  I32 sum;
};
TQ_INLINE Quad make_quad(const int16_t* p) {
  return Quad{uint32_t(uint16_t(p[0])) | uint32_t(uint16_t(p[2])) << 16,
              uint32_t(uint16_t(p[1])) | uint32_t(uint16_t(p[3])) << 16};
}
TQ_INLINE Acc zero_acc() { return Acc{zero_i32()}; }
TQ_INLINE void accumulate(Acc& acc, U32 bytes, Quad q) {
  acc.sum = acc.sum + madd16(bytes & splat_u32(0x00ff00ffu), splat_u32(q.even));
  acc.sum = acc.sum + madd16((bytes >> 8) & splat_u32(0x00ff00ffu), splat_u32(q.odd));
}
TQ_INLINE I32 finish(Acc acc) { return acc.sum; }

}  // namespace TQ_TARGET
}  // namespace tq
