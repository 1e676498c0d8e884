// What every target shares: types, the number format helpers that must be the same everywhere, and
// the switch that keeps products and sums apart. Included once.
#pragma once
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

// a*b + c rounds twice on every target: WebAssembly has no fused multiply-add, and one rounding
// less would change the last bit. In force from here on, also for code compiled later.
#pragma clang fp contract(off)

// Vectors wider than the baseline's registers are passed between inlined functions only.
#pragma clang diagnostic ignored "-Wpsabi"

#define TQ_INLINE static inline __attribute__((always_inline))
#define TQ_INLINE_MEMBER inline __attribute__((always_inline))
#define TQ_KERNEL __attribute__((noinline))

namespace tq {

constexpr uint32_t kLanes = 16;          // floats in a vector, whatever the registers
constexpr uint32_t kTileTokens = 32;     // see tq_core/math/tiles.py for the layout
constexpr uint32_t kRowBytes = 64;
constexpr uint32_t kMaxHeadDim = 576;
constexpr uint32_t kMaxGroups = kMaxHeadDim / 16;
constexpr uint32_t kRunGroups = 16;      // 255 * 32639 * 256 channels still fit an int32
constexpr uint32_t kMaxPageTokens = 256;
constexpr uint32_t kHeadsAtOnce = 4;     // query heads that share one pass over a KV head's codes
constexpr float kIntegerMax = 32639.0f;  // 127 * 256 + 127: the high byte after a signed split fits in int8
constexpr float kSmallMax = 127.0f;        // the same for multipliers of one byte
constexpr float kTiny = 1e-34f;          // rows no larger than this quantize to zero
constexpr float kRoundMagic = 12582912.0f;

enum NormMode : uint32_t { kPaper = 0, kUnbiased = 1, kMinMse = 2, kMatched = 3 };

// Entries of the `layout` argument, in the order of LAYOUT in tq_core/kernels/table.py.
struct Layout {
  uint32_t page_tokens, page_bytes, header_bytes, head_bytes;
  uint32_t key_scales, key_codes, value_scales, value_codes, key_centres;
};

TQ_INLINE Layout read_layout(const uint32_t* v) { return Layout{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]}; }

TQ_INLINE size_t head_base(const Layout& layout, uint32_t page, uint32_t kv_head) {
  return size_t(page) * layout.page_bytes + layout.header_bytes + size_t(kv_head) * layout.head_bytes;
}

TQ_INLINE uint32_t float_bits(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}

TQ_INLINE float bits_float(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}

// Nearest half, ties to even; above 65504 infinity, as numpy's cast does.
TQ_INLINE uint16_t to_half(float x) {
  const uint32_t sign = (float_bits(x) >> 16) & 0x8000u;
  const uint32_t magnitude = float_bits(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u)  // subnormal half: adding 0.5 aligns the last kept bit with float's
    return uint16_t(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u));
  const uint32_t odd = (magnitude >> 13) & 1u;
  return uint16_t(sign | ((magnitude + 0xc8000fffu + odd) >> 13));
}

// 2u - 255, the integer that a level stands for.
TQ_INLINE float level_value(uint8_t level, float scale) { return float(2 * int32_t(level) - 255) * scale; }

// How a 16-channel group is coded: its bits, or ten times a pair code's bits plus 1 for the first coordinates of the pairs
// and 2 for the second ones (tq_core/math/pairs.py). A pair code's bits stand at its first group's width, 0 at its second.
constexpr uint32_t code_bits(uint32_t code) { return code > 9 ? code / 10 : code; }
TQ_INLINE uint32_t group_code(const uint8_t* widths, uint32_t g) {
  return widths[g] == 0 ? 10u * widths[g - 1] + 2 : widths[g] > 4 ? 10u * widths[g] + 1 : widths[g];
}

// The code's row of the book table, and the number of its levels: 4, 8, 16 for 2, 3, 4 bits, then 5, 6 and 11.
TQ_INLINE uint32_t book_row(uint32_t code) { return code < 5 ? code - 2 : code < 60 ? code - 48 : 5; }
TQ_INLINE uint32_t level_count(uint32_t row) { return row < 3 ? 4u << row : row < 5 ? row + 2 : 11; }

// The code of two level numbers.
TQ_INLINE uint32_t pair_code(uint32_t first, uint32_t second, uint32_t bits) {
  if (bits == 5) return 6 * first + second;
  if (second < 8) return 8 * first + second;
  if (first < 8) return 8 * (3 + second) + first;
  return 8 * (first < 10 ? 14 : 15) + (first - 8) % 2 + 2 * (second - 8);
}

// For the upper four bits of a pair code, where the level number of a digit starts, and times 16 which of the code's
// lower bits are added: rows for codes 51, 52, 71 and 72. In the last, numbers from 8 on are counted twice: 8, 10, 12.
alignas(16) constexpr uint8_t kDigitRules[4][16] = {
    {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5},
    {16, 18, 20, 16, 18, 20, 16, 18, 20, 16, 18, 20, 16, 18, 20, 16},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 112, 112, 112, 24, 10},
    {112, 112, 112, 112, 112, 112, 112, 112, 112, 112, 112, 8, 10, 12, 104, 104}};
TQ_INLINE const uint8_t* digit_rule(uint32_t code) { return kDigitRules[(code < 70 ? code - 51 : code - 69)]; }
TQ_INLINE uint32_t doubled_level(uint32_t i) { return i < 8 ? i : 8 + (i - 8) / 2; }

// A run of at most kRunGroups 16-channel groups coded alike, so that one integer sum covers it. Pair codes give two runs
// over the same rows, each with every second group. `rows` is how far the next run's rows are.
struct Run {
  uint32_t begin, end, code, step, rows;
};

TQ_INLINE uint32_t find_runs(const uint8_t* widths, uint32_t groups, Run* runs) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    const uint32_t code = group_code(widths, i), pair = code > 9;
    const bool longer = n > pair && runs[n - 1 - pair].code == code && i - runs[n - 1 - pair].begin < kRunGroups;
    if (!longer) {
      runs[n++] = Run{i, i, code, 1 + pair, 0};
      if (pair) runs[n++] = Run{i + 1, i, code + 1, 2, 0};
    }
    runs[n - 1].rows += widths[i];
    if (pair) runs[n - 2].end = ++i;
    runs[n - 1].end = i + 1;
  }
  return n;
}

TQ_INLINE uint32_t tile_bytes(const uint8_t* widths, uint32_t groups) {
  uint32_t rows = 0;
  for (uint32_t i = 0; i < groups; ++i) rows += widths[i];
  return rows * kRowBytes;
}

// 0, 1, ... as template arguments: for arrays that live in registers, which only constant indices allow.
template <int... kIndex>
struct Indices {};
template <int kCount, int... kIndex>
struct CountUp : CountUp<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct CountUp<0, kIndex...> {
  typedef Indices<kIndex...> type;
};
template <int kCount>
using UpTo = typename CountUp<kCount>::type;

TQ_INLINE uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

}  // namespace tq
