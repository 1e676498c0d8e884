// Softmax and a matrix product in the lane contract (tq_core/math/lanes.py): the parts of a
// transformer that must give the same bits everywhere for a whole forward pass to do so.
namespace tq {
namespace TQ_TARGET {

// e^x as in lanes.exp_f32: 2^n times a polynomial in the remainder.
TQ_INLINE F32 exp_f32(F32 x) {
  const F32 clamped = min(max(x, splat(-87.0f)), splat(88.0f));
  const F32 n = (clamped * splat(1.44269504088896341f) + splat(kRoundMagic)) - splat(kRoundMagic);
  F32 r = clamped - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  F32 poly = splat(1.9875691500e-4f);
  poly = poly * r + splat(1.3981999507e-3f);
  poly = poly * r + splat(8.3334519073e-3f);
  poly = poly * r + splat(4.1665795894e-2f);
  poly = poly * r + splat(1.6666665459e-1f);
  poly = poly * r + splat(5.0000001201e-1f);
  const F32 y = (poly * (r * r) + r) + splat(1.0f);
  const F32 power = u32_as_float((i32_as_u32(to_i32(n)) + splat_u32(127u)) << 23);
  return select_ge(x, splat(-87.0f), y * power, splat(0.0f));
}

TQ_KERNEL inline void softmax(float* scores, uint32_t q, uint32_t s, uint32_t n_tokens) {
  if (n_tokens == 0) return;
  for (uint32_t row = 0; row < q; ++row) {
    float* x = scores + size_t(row) * s;
    float top = x[0];
    for (uint32_t t = 1; t < n_tokens; ++t) top = x[t] > top ? x[t] : top;
    F32 total = splat(0.0f);
    for (uint32_t t = 0; t < n_tokens; t += kLanes) {
      const uint32_t live = smaller(kLanes, n_tokens - t);
      store_n(x + t, exp_f32(load_n(x + t, live, 0.0f) - splat(top)), live);
      total = total + load_n(x + t, live, 0.0f);
    }
    const F32 inverse = splat(1.0f / fold(total));
    for (uint32_t t = 0; t < n_tokens; t += kLanes) {
      const uint32_t live = smaller(kLanes, n_tokens - t);
      store_n(x + t, load_n(x + t, live, 0.0f) * inverse, live);
    }
  }
}

// y[n, o] = sum_i x[n, i] w[o, i].
TQ_KERNEL inline void linear(const float* x, const float* w, float* y, uint32_t n, uint32_t inputs, uint32_t outputs) {
  for (uint32_t row = 0; row < n; ++row)
    for (uint32_t o = 0; o < outputs; ++o) {
      const float* a = x + size_t(row) * inputs;
      const float* b = w + size_t(o) * inputs;
      F32 total = splat(0.0f);
      uint32_t i = 0;
      for (; i + kLanes <= inputs; i += kLanes) total = total + load(a + i) * load(b + i);
      if (i < inputs) total = total + load_n(a + i, inputs - i, 0.0f) * load_n(b + i, inputs - i, 0.0f);
      y[size_t(row) * outputs + o] = fold(total);
    }
}

}  // namespace TQ_TARGET
}  // namespace tq
