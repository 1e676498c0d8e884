// Reading codes back out of packed rows: slice s of a tile is bits [kBits * s, kBits * (s + 1)) of
// every byte column, so a slice is one or two rows, shifted and masked.
namespace tq {
namespace TQ_TARGET {

template <int kBits, int kSlice>
TQ_INLINE U32 slice_codes(const uint8_t* rows) {
  constexpr int at = kBits * kSlice, shift = at % 8, kept = kBits < 8 - shift ? kBits : 8 - shift;
  constexpr uint32_t low = 0x01010101u * ((1u << kept) - 1);
  const U32 codes = (load_row(rows + at / 8 * kRowBytes) >> shift) & splat_u32(low);
  if constexpr (kept == kBits) {
    return codes;
  } else {
    constexpr uint32_t high = 0x01010101u * (((1u << (kBits - kept)) - 1) << kept);
    return codes | ((load_row(rows + (at / 8 + 1) * kRowBytes) << kept) & splat_u32(high));
  }
}

// The same with width and slice chosen at run time, for the float32 oracle.
TQ_INLINE U32 any_slice(const uint8_t* rows, uint32_t bits, uint32_t slice) {
  const uint32_t at = bits * slice, shift = at % 8, kept = smaller(bits, 8 - shift);
  const U32 codes = (load_row(rows + at / 8 * kRowBytes) >> int(shift)) & splat_u32(0x01010101u * ((1u << kept) - 1));
  if (kept == bits) return codes;
  const uint32_t high = 0x01010101u * (((1u << (bits - kept)) - 1) << kept);
  return codes | ((load_row(rows + (at / 8 + 1) * kRowBytes) << int(kept)) & splat_u32(high));
}

// The multipliers of up to four query heads, `kWords` words of four each: two planes of words, apart so
// that every one is read from memory straight into all lanes.
template <uint32_t kWords>
struct Multipliers {
  uint32_t first[kHeadsAtOnce * kWords], second[kHeadsAtOnce * kWords];
};

// Add one slice's level bytes times word `at` of each of kHeads query heads. Written out, since only constant
// indices let the accumulators live in registers. kSmall promises multipliers that fit in int8.
template <int kHeads, bool kSmall, uint32_t kWords>
TQ_INLINE void accumulate_heads(Acc* acc, U32 bytes, const Multipliers<kWords>& m, uint32_t at) {
  accumulate<kSmall>(acc[0], bytes, m.first + at, m.second + at);
  if constexpr (kHeads > 1) accumulate<kSmall>(acc[1], bytes, m.first + kWords + at, m.second + kWords + at);
  if constexpr (kHeads > 2) accumulate<kSmall>(acc[2], bytes, m.first + 2 * kWords + at, m.second + 2 * kWords + at);
  if constexpr (kHeads > 3) accumulate<kSmall>(acc[3], bytes, m.first + 3 * kWords + at, m.second + 3 * kWords + at);
}

template <int kHeads>
TQ_INLINE void clear_heads(Acc* acc) {
  acc[0] = zero_acc();
  if constexpr (kHeads > 1) acc[1] = zero_acc();
  if constexpr (kHeads > 2) acc[2] = zero_acc();
  if constexpr (kHeads > 3) acc[3] = zero_acc();
}

// The exact sum of (2u - 255) * multiplier from the sum of u * multiplier: twice the one, less
// 255 times the multipliers' total. Taken modulo 2^32, where the result fits.
TQ_INLINE F32 signed_sum(Acc acc, int32_t total) {
  const U32 twice = i32_as_u32(finish(acc)) << 1;
  return to_f32(u32_as_i32(twice + splat_u32(0u - 255u * uint32_t(total))));
}

// Byte k (0..3) of every lane as a centroid.
TQ_INLINE F32 centroid_of_byte(U32 levels, int k, float scale) {
  const U32 u = (levels >> (8 * k)) & splat_u32(255u);
  return to_f32(u32_as_i32((u << 1) + splat_u32(0u - 255u))) * splat(scale);
}

// Fetch the bytes that the same place of the next page holds, while this one is being read.
TQ_INLINE void prefetch(const uint8_t* p, uint32_t nbytes) {
  for (uint32_t i = 0; i < nbytes; i += kRowBytes) __builtin_prefetch(p + i);
}

TQ_INLINE int32_t lane_total(I32 x) {
  int32_t lanes[kLanes], total = 0;
  __builtin_memcpy(lanes, &x, sizeof lanes);
  for (uint32_t i = 0; i < kLanes; ++i) total += lanes[i];
  return total;
}

// The largest of 16 lanes.
TQ_INLINE float lane_max(F32 x) {
  float lanes[kLanes];
  store(lanes, x);
  float most = lanes[0];
  for (uint32_t i = 1; i < kLanes; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

// A row of floats to integers of magnitude at most `limit` and their total; returns the step. n is a multiple of 16.
TQ_INLINE float quantize_symmetric(const float* x, int16_t* out, uint32_t n, float limit, int32_t& total) {
  F32 most = splat(0.0f);
  for (uint32_t i = 0; i < n; i += kLanes) most = max(most, max(load(x + i), splat(0.0f) - load(x + i)));
  const float largest = lane_max(most);
  const float inverse = largest > kTiny ? limit / largest : 0.0f;
  I32 sum = zero_i32();
  for (uint32_t i = 0; i < n; i += kLanes) {
    F32 v = load(x + i) * splat(inverse);
    v = min(max(v, splat(-limit)), splat(limit));
    const I32 q = to_i32((v + splat(kRoundMagic)) - splat(kRoundMagic));
    sum = sum + q;
    store_i16(out + i, q);
  }
  total = lane_total(sum);
  return largest * (1.0f / limit);
}

}  // namespace TQ_TARGET
}  // namespace tq
