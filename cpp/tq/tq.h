// The umbrella: every kernel, compiled once per target. A target is a list of includes between
// push and pop; its namespace (tq::scalar, tq::avx2, ...) is its name.
//
// The including file must be compiled for the lowest CPU (x86-64 baseline): with wider flags the
// compiler may use wider instructions in the narrower targets.
#pragma once
#include "base.h"

#define TQ_TARGET scalar
#include "simd/scalar.h"
#include "kernels/all.h"
#undef TQ_TARGET

#if defined(__x86_64__)
#define TQ_NATIVE_HALF
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#define TQ_TARGET avx2
#include "simd/wide.h"
#include "simd/avx2.h"
#include "simd/registers.h"
#include "simd/madd.h"
#include "kernels/all.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx2,f16c,avxvnni"))), apply_to = function)
#define TQ_TARGET avxvnni
#include "simd/wide.h"
#include "simd/avx2.h"
#include "simd/registers.h"
#include "simd/avxvnni.h"
#include "simd/vnni.h"
#include "kernels/all.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#define TQ_TARGET avx512
#include "simd/wide.h"
#include "simd/avx512.h"
#include "simd/registers.h"
#include "simd/madd.h"
#include "kernels/all.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))), apply_to = function)
#define TQ_TARGET avx512vnni
#include "simd/wide.h"
#include "simd/avx512.h"
#include "simd/registers.h"
#include "simd/avx512vnni.h"
#include "simd/vnni.h"
#include "kernels/all.h"
#undef TQ_TARGET
#pragma clang attribute pop
#undef TQ_NATIVE_HALF
#endif

#if defined(__aarch64__)
#define TQ_TARGET neon
#include "simd/wide.h"
#include "simd/neon.h"
#include "simd/registers.h"
#include "simd/madd.h"
#include "kernels/all.h"
#undef TQ_TARGET
#endif

#if defined(__wasm_simd128__)
#define TQ_TARGET wasm128
#include "simd/wide.h"
#include "simd/wasm128.h"
#include "simd/registers.h"
#include "simd/madd.h"
#include "kernels/all.h"
#undef TQ_TARGET
#endif
