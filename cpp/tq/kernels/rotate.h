// The structured rotation: signs, a fast Walsh-Hadamard transform, a small Paley matrix.
namespace tq {
namespace TQ_TARGET {

TQ_INLINE void cross(F32& a, F32& b) {
  const F32 sum = a + b;
  b = a - b;
  a = sum;
}

// Vectors whose index lacks the bit kBit, each with the one that has it.
template <int kBit, int... k>
TQ_INLINE void cross_vectors(F32* v, Indices<k...>) {
  ((k & kBit ? void() : cross(v[k], v[k | kBit])), ...);
}

// The transform of 16 * n values, n a power of two, all in registers.
template <int... k>
TQ_INLINE void fwht_vectors(float* z, Indices<k...> all) {
  constexpr int n = sizeof...(k);
  F32 v[] = {load(z + kLanes * k)...};
  ((v[k] = butterfly<1>(v[k])), ...);
  ((v[k] = butterfly<2>(v[k])), ...);
  ((v[k] = butterfly<4>(v[k])), ...);
  ((v[k] = butterfly<8>(v[k])), ...);
  if constexpr (n > 1) cross_vectors<1>(v, all);
  if constexpr (n > 2) cross_vectors<2>(v, all);
  if constexpr (n > 4) cross_vectors<4>(v, all);
  (store(z + kLanes * k, v[k]), ...);
}

// Stages 1, 2, 4, ... of the transform on each of n / span contiguous spans (span a power of two).
TQ_INLINE void fwht(float* z, uint32_t n, uint32_t span) {
  if (span < kLanes) {
    for (uint32_t i = 0; i < n; i += kLanes) {
      F32 v = load(z + i);
      if (span > 1) v = butterfly<1>(v);
      if (span > 2) v = butterfly<2>(v);
      if (span > 4) v = butterfly<4>(v);
      store(z + i, v);
    }
    return;
  }
  const uint32_t block = smaller(span, 8 * kLanes);  // what registers hold
  for (uint32_t i = 0; i < n; i += block) {
    if (block == 8 * kLanes) {
      fwht_vectors(z + i, UpTo<8>());
    } else if (block == 4 * kLanes) {
      fwht_vectors(z + i, UpTo<4>());
    } else if (block == 2 * kLanes) {
      fwht_vectors(z + i, UpTo<2>());
    } else {
      fwht_vectors(z + i, UpTo<1>());
    }
  }
  for (uint32_t h = block; h < span; h *= 2)
    for (uint32_t i = 0; i < n; i += 2 * h)
      for (uint32_t j = i; j < i + h; j += kLanes) {
        const F32 a = load(z + j), b = load(z + j + h);
        store(z + j, a + b);
        store(z + j + h, a - b);
      }
}

// z = H z, or H^T z, for H = hadamard (x) FWHT, unnormalised. The sum over the m x m matrix starts
// from zero and takes its columns in order; its entries are +-1, so the products are exact.
TQ_INLINE void transform(float* z, const float* hadamard, uint32_t d, uint32_t m, bool inverse) {
  const uint32_t span = d / m;
  fwht(z, d, span);
  if (m == 1) return;
  alignas(kRowBytes) float out[kMaxHeadDim];
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t l = 0; l < span; ++l) {
      float total = 0.0f;
      for (uint32_t j = 0; j < m; ++j)
        total = total + (inverse ? hadamard[j * m + i] : hadamard[i * m + j]) * z[j * span + l];
      out[i * span + l] = total;
    }
  for (uint32_t i = 0; i < d; i += kLanes) store(z + i, load(out + i));
}

TQ_INLINE void multiply(float* out, const float* a, const float* b, uint32_t n) {
  for (uint32_t i = 0; i < n; i += kLanes) store(out + i, load(a + i) * load(b + i));
}

// y = scale * H (signs * x), or scale * (signs * H^T x).
TQ_KERNEL inline void rotate(const float* x, const float* signs, const float* hadamard, float* y, uint32_t n, uint32_t d,
                             uint32_t m, uint32_t inverse, float scale) {
  alignas(kRowBytes) float z[kMaxHeadDim];
  for (uint32_t row = 0; row < n; ++row, x += d, y += d) {
    if (inverse) {
      for (uint32_t i = 0; i < d; i += kLanes) store(z + i, load(x + i));
    } else {
      multiply(z, signs, x, d);
    }
    transform(z, hadamard, d, m, inverse != 0);
    if (inverse) multiply(z, signs, z, d);
    for (uint32_t i = 0; i < d; i += kLanes) store(y + i, splat(scale) * load(z + i));
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
