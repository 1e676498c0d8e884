// Rotated vectors to codes and one stored scale: see tq_core/math/quantize.py for the four rules.
namespace tq {
namespace TQ_TARGET {

// Codes of 16 standardised coordinates, and their centroids added into the two sums of the scale.
TQ_INLINE void quantize_group(F32 t, uint32_t n_levels, const uint8_t* levels, float book_scale, const float* boundaries,
                              uint8_t* codes, F32& tc, F32& cc) {
  U32 count = splat_u32(0);
  for (uint32_t k = 0; k + 1 < n_levels; ++k) count = count_greater(count, t, splat(boundaries[k]));
  store_u8(codes, count);
  const U32 twice = lookup_lanes(load_table(levels), count) << 1;
  const F32 c = to_f32(u32_as_i32(twice + splat_u32(0u - 255u))) * splat(book_scale);
  tc = tc + t * c;
  cc = cc + c * c;
}

TQ_INLINE float stored_scale(float rho, float tc, float cc, float d, uint32_t mode) {
  const float root_d = __builtin_sqrtf(d);
  if (mode == kPaper) return rho / root_d;
  if (mode == kUnbiased) return tc > 0.0f ? (rho * root_d) / tc : 0.0f;
  if (mode == kMinMse) return (rho * tc) / (root_d * cc);
  return rho / __builtin_sqrtf(cc);
}

// One vector: codes[d] and the bits of its half-precision scale.
TQ_INLINE uint16_t encode_row(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                              const uint8_t* levels, const float* book_scale, const float* boundaries, uint32_t d,
                              uint32_t m, uint32_t norm_mode, uint8_t* codes) {
  alignas(kRowBytes) float z[kMaxHeadDim];
  F32 squares = splat(0.0f);
  for (uint32_t i = 0; i < d; i += kLanes) squares = squares + load(x + i) * load(x + i);
  const float rho = __builtin_sqrtf(fold(squares));
  const float inverse = rho > 0.0f ? 1.0f / rho : 0.0f;
  multiply(z, signs, x, d);
  transform(z, hadamard, d, m, false);
  F32 tc = splat(0.0f), cc = splat(0.0f);
  for (uint32_t g = 0; g < d / kLanes; ++g) {
    const uint32_t row = book_row(group_code(widths, g));
    quantize_group(load(z + g * kLanes) * splat(inverse), level_count(row), levels + 16 * row, book_scale[row],
                   boundaries + 16 * row, codes + g * kLanes, tc, cc);
  }
  return to_half(stored_scale(rho, fold(tc), fold(cc), float(d), norm_mode));
}

TQ_KERNEL inline void encode_rows(const float* x, const float* signs, const float* hadamard, const uint8_t* widths,
                                  const uint8_t* levels, const float* book_scale, const float* boundaries,
                                  uint8_t* codes, uint16_t* scales, uint32_t n, uint32_t d, uint32_t m, uint32_t,
                                  uint32_t, uint32_t norm_mode) {
  for (uint32_t row = 0; row < n; ++row)
    scales[row] = encode_row(x + row * d, signs, hadamard, widths, levels, book_scale, boundaries, d, m, norm_mode,
                             codes + row * d);
}

}  // namespace TQ_TARGET
}  // namespace tq
