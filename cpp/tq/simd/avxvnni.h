// What AVX-VNNI adds to avx2.h: the product of vnni.h, for CPUs that have it without AVX-512.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE RegI dpbusd(RegI sum, Reg bytes, Reg words) {
  return (RegI)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)bytes, (__m256i)words);
}

}  // namespace TQ_TARGET
}  // namespace tq
