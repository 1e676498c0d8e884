// What AVX-512 (F, BW, VL, DQ) adds to wide.h: one register per vector.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE F32 load_half(const uint16_t* p) { return (F32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
TQ_INLINE U32 lookup16(Table table, U32 index) { return (U32)_mm512_shuffle_epi8((__m512i)table, (__m512i)index); }
TQ_INLINE I32 madd16(U32 a, U32 b) { return (I32)_mm512_madd_epi16((__m512i)a, (__m512i)b); }

}  // namespace TQ_TARGET
}  // namespace tq
