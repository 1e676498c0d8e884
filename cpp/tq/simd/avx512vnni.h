// What AVX-512 VNNI adds to avx512.h: the product of vnni.h on one register.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE I32 dpbusd(I32 sum, U32 bytes, U32 words) {
  return (I32)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)bytes, (__m512i)words);
}

}  // namespace TQ_TARGET
}  // namespace tq
