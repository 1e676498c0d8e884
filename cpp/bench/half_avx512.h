// What half_attention.h needs of AVX-512: 16 floats per register, 32 registers.
namespace tq_bench {
namespace TQ_TARGET {

typedef __m512 Wide;
constexpr int kWidth = 16, kVectors = 2, kValueVectors = 4;
TQ_INLINE Wide widen(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
TQ_INLINE Wide every(float x) { return _mm512_set1_ps(x); }
TQ_INLINE Wide fused(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a, b, c); }
TQ_INLINE Wide get(const float* p) { return _mm512_loadu_ps(p); }
TQ_INLINE void put(float* p, Wide x) { _mm512_storeu_ps(p, x); }

}  // namespace TQ_TARGET
}  // namespace tq_bench
