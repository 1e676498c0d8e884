// Loads and stores of fewer than 16 elements, and of halves at any address: the only place for tails.
namespace tq {
namespace TQ_TARGET {

// Up to 16 floats, the rest `fill`.
TQ_INLINE F32 load_n(const float* p, uint32_t n, float fill) {
  alignas(kRowBytes) float lanes[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : fill;
  return load(lanes);
}

TQ_INLINE void store_n(float* p, F32 x, uint32_t n) {
  alignas(kRowBytes) float lanes[kLanes];
  store(lanes, x);
  for (uint32_t i = 0; i < smaller(n, kLanes); ++i) p[i] = lanes[i];
}

TQ_INLINE F32 load_half_bytes(const uint8_t* p) {
  uint16_t halves[kLanes];
  __builtin_memcpy(halves, p, sizeof halves);
  return load_half(halves);
}

}  // namespace TQ_TARGET
}  // namespace tq
