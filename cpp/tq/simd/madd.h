// The exact sum of byte * int16 products where the machine multiplies 16-bit pairs into 32 bits:
// bytes 0 and 2 of each lane against one pair of multipliers, bytes 1 and 3 against another.
// madd16(a, b) is the target's: a.low * b.low + a.high * b.high in every 32-bit lane.
namespace tq {
namespace TQ_TARGET {

constexpr bool kSmallIsFaster = false;

struct Acc {
  RegI sum;
};
TQ_INLINE Acc zero_acc() { return Acc{RegI{}}; }

// Sixteen multipliers: even-numbered ones to four words of one plane, odd ones to the other.
TQ_INLINE void store_quads(I32 x, uint32_t* first, uint32_t* second) {
  typedef int16_t Narrow __attribute__((vector_size(16)));
  const I16x16 all = __builtin_convertvector(x, I16x16);
  const Narrow even = __builtin_shufflevector(all, all, 0, 2, 4, 6, 8, 10, 12, 14);
  const Narrow odd = __builtin_shufflevector(all, all, 1, 3, 5, 7, 9, 11, 13, 15);
  uint32_t words[4];
  __builtin_memcpy(words, &even, 16);
  store_words(first, words);
  __builtin_memcpy(words, &odd, 16);
  store_words(second, words);
}
template <bool kSmall>
TQ_INLINE void accumulate(Acc& acc, Reg bytes, const uint32_t* first, const uint32_t* second) {
  acc.sum = acc.sum + madd16(bytes & every(0x00ff00ffu), load_word(first));
  acc.sum = acc.sum + madd16((bytes >> 8) & every(0x00ff00ffu), load_word(second));
}
TQ_INLINE RegI finish(Acc acc) { return acc.sum; }

}  // namespace TQ_TARGET
}  // namespace tq
