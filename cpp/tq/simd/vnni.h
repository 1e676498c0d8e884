// The exact sum where the machine multiplies unsigned bytes by signed bytes: each int16 multiplier,
// at most 32639, is 256 * high + low with low in -128..127, and the two parts are summed apart.
// dpbusd(sum, bytes, words) is the target's: in every 32-bit lane four products, added to the sum.
namespace tq {
namespace TQ_TARGET {

constexpr bool kSmallIsFaster = true;  // one product instead of two

struct Acc {
  RegI high, low;
};
TQ_INLINE Acc zero_acc() { return Acc{RegI{}, RegI{}}; }

// Sixteen multipliers: high bytes to four words of one plane, low bytes to the other.
TQ_INLINE void store_quads(I32 x, uint32_t* first, uint32_t* second) {
  typedef uint8_t Narrow __attribute__((vector_size(16)));
  const Narrow high = __builtin_convertvector((x + 128) >> 8, Narrow), low = __builtin_convertvector(x, Narrow);
  __builtin_memcpy(first, &high, 16);
  __builtin_memcpy(second, &low, 16);
}
// Multipliers within int8 have no high part.
template <bool kSmall>
TQ_INLINE void accumulate(Acc& acc, Reg bytes, const uint32_t* first, const uint32_t* second) {
  if constexpr (!kSmall) acc.high = dpbusd(acc.high, bytes, load_word(first));
  acc.low = dpbusd(acc.low, bytes, load_word(second));
}
TQ_INLINE RegI finish(Acc acc) { return (RegI)(((Reg)acc.high << 8) + (Reg)acc.low); }

}  // namespace TQ_TARGET
}  // namespace tq
