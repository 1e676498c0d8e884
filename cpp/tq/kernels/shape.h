// Codes by coordinate descent under a metric: see tq_core/math/shaping.py. Rows of the metric are added to all channels at
// once, each channel in its own lane, so that no order of additions depends on the registers.
namespace tq {
namespace TQ_TARGET {

// y += a * x.
TQ_INLINE void add_row(float* y, float a, const float* x, uint32_t d) {
  const F32 factor = splat(a);
  for (uint32_t c = 0; c < d; c += kLanes) store(y + c, load(y + c) + factor * load(x + c));
}

TQ_INLINE void times_metric(float* out, const float* x, const float* metric, uint32_t d) {
  for (uint32_t c = 0; c < d; c += kLanes) store(out + c, splat(0.0f));
  for (uint32_t j = 0; j < d; ++j) add_row(out, x[j], metric + size_t(j) * d, d);
}

TQ_INLINE float row_dot(const float* a, const float* b, uint32_t d) {
  F32 total = splat(0.0f);
  for (uint32_t c = 0; c < d; c += kLanes) total = total + load(a + c) * load(b + c);
  return fold(total);
}

TQ_INLINE uint32_t cell_of(float t, const float* boundaries, uint32_t n_levels) {
  uint32_t count = 0;
  for (uint32_t k = 0; k + 1 < n_levels; ++k) count += t > boundaries[k];
  return count;
}

// kVectors * 16 outputs of x times w (d rows, `stride` apart): rows are added in order, each output in its own lane.
template <int kVectors>
TQ_INLINE void row_by_matrix(float* y, const float* x, const float* w, uint32_t d, uint32_t stride) {
  F32 total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = splat(0.0f);
  for (uint32_t j = 0; j < d; ++j, w += stride) {
    const F32 factor = splat(x[j]);
    for (int v = 0; v < kVectors; ++v) total[v] = total[v] + factor * load(w + v * kLanes);
  }
  for (int v = 0; v < kVectors; ++v) store(y + v * kLanes, total[v]);
}

TQ_KERNEL inline void map_heads(const float* x, const float* w, float* y, uint32_t n, uint32_t q, uint32_t d, uint32_t h) {
  for (uint32_t head = 0; head < q; ++head) {
    const float* own = w + size_t(head / (q / h)) * d * d;
    for (uint32_t row = 0; row < n; ++row) {
      const size_t at = (size_t(row) * q + head) * d;
      uint32_t c = 0;
      for (; c + 4 * kLanes <= d; c += 4 * kLanes) row_by_matrix<4>(y + at + c, x + at, own + c, d, d);
      for (; c < d; c += kLanes) row_by_matrix<1>(y + at + c, x + at, own + c, d, d);
    }
  }
}

// The scale that fits the centroids c best; `held` is c times the metric.
TQ_INLINE float refit(const float* y, const float* c, const float* held, float scale, uint32_t d) {
  const float towards = row_dot(y, held, d), size = row_dot(c, held, d);
  return towards > 0.0f && size > 0.0f ? towards / size : scale;
}

// Reciprocal multiples of the first scale that are tried: STARTS in shaping.py.
constexpr float kStarts[7] = {1.0f, 1.25f, 1.15f, 1.0625f, 0.9375f, 0.875f, 0.8125f};

// Nearest codes and their centroids for the start that leaves the least squared error.
TQ_INLINE void start_row(const float* y, float inverse, const uint8_t* widths, const uint8_t* levels,
                         const float* book_scale, const float* boundaries, uint8_t* codes, float* c, uint32_t d) {
  alignas(kRowBytes) float tried[kMaxHeadDim];
  uint8_t numbers[kMaxHeadDim];
  float most = -1.0f;
  for (float start : kStarts) {
    F32 towards = splat(0.0f), size = splat(0.0f);
    for (uint32_t g = 0; g < d / kLanes; ++g) {
      const uint32_t row = book_row(widths[g]), at = g * kLanes;
      const F32 x = load(y + at), t = x * splat(inverse * start);
      U32 count = splat_u32(0);
      for (uint32_t k = 0; k + 1 < level_count(row); ++k) count = count_greater(count, t, splat(boundaries[16 * row + k]));
      store_u8(numbers + at, count);
      const U32 twice = lookup_lanes(load_table(levels + 16 * row), count) << 1;
      const F32 v = to_f32(u32_as_i32(twice + splat_u32(0u - 255u))) * splat(book_scale[row]);
      store(tried + at, v);
      towards = towards + x * v;
      size = size + v * v;
    }
    const float fit = fold(towards), explained = fit > 0.0f ? fit * fit / fold(size) : 0.0f;
    if (!(explained > most)) continue;
    most = explained;
    __builtin_memcpy(codes, numbers, d);
    __builtin_memcpy(c, tried, d * sizeof(float));
  }
}

TQ_INLINE uint16_t shape_row(const float* y, const float* metric, const float* steps, const uint8_t* widths,
                             const uint8_t* levels, const float* book_scale, const float* boundaries, uint8_t* codes,
                             uint32_t d, uint32_t passes) {
  alignas(kRowBytes) float pull[kMaxHeadDim], c[kMaxHeadDim], held[kMaxHeadDim];
  float scale = __builtin_sqrtf(row_dot(y, y, d)) / __builtin_sqrtf(float(d));
  float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  times_metric(pull, y, metric, d);
  start_row(y, inverse, widths, levels, book_scale, boundaries, codes, c, d);
  times_metric(held, c, metric, d);
  scale = refit(y, c, held, scale, d);
  for (uint32_t pass = 0; pass < passes; ++pass) {
    inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t i = 0; i < d; ++i) {
      const uint32_t row = book_row(widths[i / kLanes]);
      const float wanted = c[i] - (held[i] - inverse * pull[i]) * steps[i];
      const uint8_t code = uint8_t(cell_of(wanted, boundaries + 16 * row, level_count(row)));
      if (code == codes[i]) continue;
      const float best = level_value(levels[16 * row + code], book_scale[row]);
      add_row(held, best - c[i], metric + size_t(i) * d, d);
      codes[i] = code;
      c[i] = best;
    }
    scale = refit(y, c, held, scale, d);
  }
  return to_half(scale < 65504.0f ? scale : 65504.0f);
}

TQ_KERNEL inline void shape_codes(const float* y, const float* metric, const uint8_t* widths, const uint8_t* levels,
                                  const float* book_scale, const float* boundaries, uint8_t* codes, uint16_t* scales,
                                  uint32_t n, uint32_t h, uint32_t d, uint32_t, uint32_t, uint32_t passes) {
  alignas(kRowBytes) float steps[kMaxHeadDim];
  for (uint32_t head = 0; head < h; ++head) {
    const float* own = metric + size_t(head) * d * d;
    for (uint32_t i = 0; i < d; ++i) steps[i] = 1.0f / own[size_t(i) * d + i];
    for (uint32_t row = 0; row < n; ++row) {
      const size_t at = size_t(row) * h + head;
      scales[at] = shape_row(y + at * d, own, steps, widths, levels, book_scale, boundaries, codes + at * d, d, passes);
    }
  }
}

}  // namespace TQ_TARGET
}  // namespace tq
