// The exact sum of byte * int16 products where the machine multiplies 16-bit pairs into 32 bits:
// bytes 0 and 2 of each lane against one pair of multipliers, bytes 1 and 3 against another.
// madd16(a, b) is the target's: a.low * b.low + a.high * b.high in every 32-bit lane.
namespace tq {
namespace TQ_TARGET {

constexpr bool kSmallIsFaster = false;

struct Acc {
  I32 sum;
};
TQ_INLINE Acc zero_acc() { return Acc{zero_i32()}; }

// Even-numbered multipliers in one plane, odd ones in the other; n is a multiple of 16.
TQ_INLINE void make_quads(const int16_t* p, uint32_t n, uint32_t* first, uint32_t* second) {
  typedef uint32_t Pairs __attribute__((vector_size(32)));
  typedef uint16_t Narrow __attribute__((vector_size(16)));
  for (uint32_t k = 0; k < n; k += 16, p += 16, first += 4, second += 4) {
    Pairs pairs;
    __builtin_memcpy(&pairs, p, 32);
    const Narrow even = __builtin_convertvector(pairs & 0xffffu, Narrow), odd = __builtin_convertvector(pairs >> 16, Narrow);
    __builtin_memcpy(first, &even, 16);
    __builtin_memcpy(second, &odd, 16);
  }
}
template <bool kSmall>
TQ_INLINE void accumulate(Acc& acc, U32 bytes, const uint32_t* first, const uint32_t* second) {
  acc.sum = acc.sum + madd16(bytes & splat_u32(0x00ff00ffu), splat_u32(*first));
  acc.sum = acc.sum + madd16((bytes >> 8) & splat_u32(0x00ff00ffu), splat_u32(*second));
}
TQ_INLINE I32 finish(Acc acc) { return acc.sum; }

}  // namespace TQ_TARGET
}  // namespace tq
