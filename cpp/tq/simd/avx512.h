// What AVX-512 (F, BW, VL, DQ) adds to wide.h: one register per vector.
namespace tq {
namespace TQ_TARGET {

// Two registers of codes share every multiplier: read once from memory, it is used twice.
constexpr int kRegsInPass = 2;
constexpr bool kOneSliceLoops = false;
constexpr uint32_t kCopies = 1;

typedef U32 Reg;
typedef I32 RegI;
typedef Reg Table;

TQ_INLINE Table load_table(const uint8_t* p) { return (Table)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)p)); }
TQ_INLINE Reg lookup16(Table table, Reg index) { return (Reg)_mm512_shuffle_epi8((__m512i)table, (__m512i)index); }
TQ_INLINE RegI madd16(Reg a, Reg b) { return (RegI)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
// Four floats, and the one that the lowest two bits of every lane name.
typedef __m512 Four;
TQ_INLINE Four load_four(const float* p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
TQ_INLINE F32 look_up_four(Four four, U32 index) { return (F32)_mm512_permutevar_ps(four, (__m512i)index); }
TQ_INLINE F32 load_half(const uint16_t* p) { return (F32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }

}  // namespace TQ_TARGET
}  // namespace tq
