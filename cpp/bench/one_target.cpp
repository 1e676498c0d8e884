// The decode step as a shared library for any C++ compiler, with the widest target that its flags allow: beside it, what
// Cling compiles in the process can be judged. Contraction is switched off by a flag, since not every compiler knows the pragma.
#include "../tq/base.h"
#include "parts.h"

#define TQ_NATIVE_HALF
#if defined(__AVX512VNNI__)
#define TQ_TARGET avx512vnni
#include "../tq/simd/wide.h"
#include "../tq/simd/avx512.h"
#include "../tq/simd/registers.h"
#include "../tq/simd/avx512vnni.h"
#include "../tq/simd/vnni.h"
#elif defined(__AVX2__) && defined(__F16C__)
#define TQ_TARGET avx2
#include "../tq/simd/wide.h"
#include "../tq/simd/avx2.h"
#include "../tq/simd/registers.h"
#include "../tq/simd/madd.h"
#else
#define TQ_TARGET scalar
#include "../tq/simd/scalar.h"
#endif
#include "../tq/kernels/all.h"
#include "step.h"

#define TQ_TEXT_OF(x) #x
#define TQ_TEXT(x) TQ_TEXT_OF(x)

extern "C" const char* tq_target() { return TQ_TEXT(TQ_TARGET); }
extern "C" void tq_decode(uint32_t calls, uint32_t first, uint32_t layers, uint32_t threads, const float* x,
                          const float* key_signs, const float* value_signs, const float* hadamard, const uint8_t* key_widths,
                          const uint8_t* value_widths, const uint8_t* levels, const float* book_scale, const uint32_t* pages,
                          const uint32_t* layout, const uint8_t* pool, float* rotated, int16_t* query, float* step, float* peaks,
                          float* totals, float* outs, float* y, uint32_t q, uint32_t d, uint32_t m, uint32_t n_pages, uint64_t b,
                          uint32_t n_kv_heads, uint32_t n_tokens, uint32_t chunk_pages, uint32_t small, float unit, float scale,
                          float limit) {
  tq_bench::TQ_TARGET::decode(calls, first, layers, threads, x, key_signs, value_signs, hadamard, key_widths, value_widths, levels,
                              book_scale, pages, layout, pool, rotated, query, step, peaks, totals, outs, y, q, d, m, n_pages, b,
                              n_kv_heads, n_tokens, chunk_pages, small, unit, scale, limit);
}
