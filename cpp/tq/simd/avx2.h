// What AVX2 adds to wide.h: registers of 8 lanes.
namespace tq {
namespace TQ_TARGET {

constexpr int kRegsInPass = 1;
constexpr bool kOneSliceLoops = false;
constexpr uint32_t kCopies = 1;

typedef uint32_t Reg __attribute__((vector_size(32)));
typedef int32_t RegI __attribute__((vector_size(32)));
typedef Reg Table;

TQ_INLINE Table load_table(const uint8_t* p) {
  return (Table)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p));
}
TQ_INLINE Reg lookup16(Table table, Reg index) { return (Reg)_mm256_shuffle_epi8((__m256i)table, (__m256i)index); }
TQ_INLINE RegI madd16(Reg a, Reg b) { return (RegI)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
// Four floats, and the one that the lowest two bits of every lane name.
typedef __m256 Four;
TQ_INLINE Four load_four(const float* p) { return _mm256_broadcast_ps((const __m128*)p); }
TQ_INLINE F32 look_up_four(Four four, U32 index) {
  typedef uint32_t Eight __attribute__((vector_size(32)));
  typedef float EightF __attribute__((vector_size(32)));
  const Eight low = __builtin_shufflevector(index, index, 0, 1, 2, 3, 4, 5, 6, 7);
  const Eight high = __builtin_shufflevector(index, index, 8, 9, 10, 11, 12, 13, 14, 15);
  const EightF a = (EightF)_mm256_permutevar_ps(four, (__m256i)low), b = (EightF)_mm256_permutevar_ps(four, (__m256i)high);
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TQ_INLINE F32 load_half(const uint16_t* p) {
  typedef float Eight __attribute__((vector_size(32)));
  const Eight low = (Eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  const Eight high = (Eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

}  // namespace TQ_TARGET
}  // namespace tq
