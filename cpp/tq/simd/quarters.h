// A vector as four 128-bit registers, for targets that have no wider ones.
namespace tq {
namespace TQ_TARGET {

typedef int32_t Quarter __attribute__((vector_size(16)));
typedef int32_t HalfVec __attribute__((vector_size(32)));
template <int k>
TQ_INLINE Quarter quarter(U32 x) {
  return (Quarter)__builtin_shufflevector(x, x, 4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3);
}
TQ_INLINE I32 join(Quarter a, Quarter b, Quarter c, Quarter d) {
  const HalfVec low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const HalfVec high = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

}  // namespace TQ_TARGET
}  // namespace tq
