// What AVX-VNNI adds to avx2.h: the product of vnni.h on two 256-bit halves, for CPUs that have it
// without AVX-512.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE I32 dpbusd(I32 sum, U32 bytes, U32 words) {
  return join(_mm256_dpbusd_avx_epi32(low_half((U32)sum), low_half(bytes), low_half(words)),
              _mm256_dpbusd_avx_epi32(high_half((U32)sum), high_half(bytes), high_half(words)));
}

}  // namespace TQ_TARGET
}  // namespace tq
