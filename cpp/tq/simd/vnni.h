// The exact sum where the machine multiplies unsigned bytes by signed bytes: each int16 multiplier,
// at most 32639, is 256 * high + low with low in -128..127, and the two parts are summed apart.
// dpbusd(sum, bytes, words) is the target's: in every 32-bit lane four products, added to the sum.
namespace tq {
namespace TQ_TARGET {

constexpr bool kSmallIsFaster = true;  // one product instead of two

struct Acc {
  I32 high, low;
};
TQ_INLINE Acc zero_acc() { return Acc{zero_i32(), zero_i32()}; }

// High bytes in one plane, low bytes in the other; n is a multiple of 16.
TQ_INLINE void make_quads(const int16_t* p, uint32_t n, uint32_t* first, uint32_t* second) {
  typedef uint8_t Narrow __attribute__((vector_size(16)));
  for (uint32_t k = 0; k < n; k += 16, p += 16, first += 4, second += 4) {
    I16x16 x;
    __builtin_memcpy(&x, p, 32);
    const Narrow high = __builtin_convertvector((x + 128) >> 8, Narrow), low = __builtin_convertvector(x & 255, Narrow);
    __builtin_memcpy(first, &high, 16);
    __builtin_memcpy(second, &low, 16);
  }
}
// Multipliers within int8 have no high part.
template <bool kSmall>
TQ_INLINE void accumulate(Acc& acc, U32 bytes, const uint32_t* first, const uint32_t* second) {
  if constexpr (!kSmall) acc.high = dpbusd(acc.high, bytes, splat_u32(*first));
  acc.low = dpbusd(acc.low, bytes, splat_u32(*second));
}
TQ_INLINE I32 finish(Acc acc) { return (I32)(((U32)acc.high << 8) + (U32)acc.low); }

}  // namespace TQ_TARGET
}  // namespace tq
