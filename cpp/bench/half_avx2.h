// What half_attention.h needs of AVX2 with FMA and F16C: 8 floats per register, 16 registers.
namespace tq_bench {
namespace TQ_TARGET {

typedef __m256 Wide;
constexpr int kWidth = 8, kVectors = 2, kValueVectors = 2;
TQ_INLINE Wide widen(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
TQ_INLINE Wide every(float x) { return _mm256_set1_ps(x); }
TQ_INLINE Wide fused(Wide a, Wide b, Wide c) { return _mm256_fmadd_ps(a, b, c); }
TQ_INLINE Wide get(const float* p) { return _mm256_loadu_ps(p); }
TQ_INLINE void put(float* p, Wide x) { _mm256_storeu_ps(p, x); }

}  // namespace TQ_TARGET
}  // namespace tq_bench
