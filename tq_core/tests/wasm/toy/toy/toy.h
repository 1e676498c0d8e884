// Toy kernels for the tests of the wasm build and the hosts: small, and some misbehave on purpose.
#pragma once
#include <stdint.h>
#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif

namespace tq {
namespace toy {

inline void axpy(const float* x, float* y, uint32_t n, uint32_t d, uint32_t negate, float scale) {
  for (uint32_t i = 0; i < n * d; ++i) y[i] += (negate ? -scale : scale) * x[i];
}

// Adds x[i] to every byte of page pages[i].
inline void stamp(const uint8_t* x, const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t p, uint32_t b) {
  for (uint32_t i = 0; i < p; ++i)
    for (uint32_t j = 0; j < layout[1]; ++j)
      if (pages[i] * layout[1] + j < b) pool[pages[i] * layout[1] + j] += x[i];
}

// Writes `extra` bytes beyond its array.
inline void overrun(uint8_t* y, uint32_t n, uint32_t extra) {
  for (uint32_t i = 0; i < n + extra; ++i) y[i] = 7;
}

inline void spin(uint8_t* y, uint32_t n) {
  volatile uint8_t* flag = y;
  while (n && *flag == 0) {
  }
}

inline void trap(uint8_t* y, uint32_t n) {
  y[0] = 1;
  if (n) __builtin_trap();
}

inline void gather(const uint8_t* table, const uint8_t* index, uint8_t* y, uint32_t n) {
  for (uint32_t i = 0; i < n * 16; ++i) y[i] = index[i] < 16 ? table[index[i]] : 0;
}

}  // namespace toy

namespace scalar {
using namespace toy;
}

#ifdef __wasm_simd128__
namespace wasm128 {
using toy::axpy;
using toy::overrun;
using toy::spin;
using toy::stamp;
using toy::trap;

inline void gather(const uint8_t* table, const uint8_t* index, uint8_t* y, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    wasm_v128_store(y + 16 * i, wasm_i8x16_swizzle(wasm_v128_load(table), wasm_v128_load(index + 16 * i)));
}
}  // namespace wasm128
#endif
}  // namespace tq
