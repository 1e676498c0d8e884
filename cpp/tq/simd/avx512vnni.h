// What AVX-512 VNNI adds to avx512.h: the product of vnni.h.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE RegI dpbusd(RegI sum, Reg bytes, Reg words) {
  return (RegI)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)bytes, (__m512i)words);
}

}  // namespace TQ_TARGET
}  // namespace tq
