// What AVX2 adds to wide.h: two 256-bit halves per vector.
namespace tq {
namespace TQ_TARGET {

typedef int32_t Half __attribute__((vector_size(32)));
TQ_INLINE __m256i low_half(U32 x) { return (__m256i)__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7); }
TQ_INLINE __m256i high_half(U32 x) { return (__m256i)__builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15); }
TQ_INLINE I32 join(__m256i a, __m256i b) {
  return __builtin_shufflevector((Half)a, (Half)b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TQ_INLINE F32 load_half(const uint16_t* p) {
  typedef float Eight __attribute__((vector_size(32)));
  const Eight low = (Eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  const Eight high = (Eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TQ_INLINE U32 lookup16(Table table, U32 index) {
  const __m256i t = low_half(table);
  return (U32)join(_mm256_shuffle_epi8(t, low_half(index)), _mm256_shuffle_epi8(t, high_half(index)));
}
TQ_INLINE I32 madd16(U32 a, U32 b) {
  return join(_mm256_madd_epi16(low_half(a), low_half(b)), _mm256_madd_epi16(high_half(a), high_half(b)));
}

}  // namespace TQ_TARGET
}  // namespace tq
