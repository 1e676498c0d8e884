// The benchmark's own code, per target: no part of the library, not compiled for WebAssembly.
#pragma once
#include "../tq/tq.h"
#include "parts.h"

#define TQ_TARGET scalar
#include "step.h"
#include "stream.h"
#undef TQ_TARGET

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#define TQ_TARGET avx2
#include "step.h"
#include "stream.h"
#include "half_avx2.h"
#include "half_attention.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx"))), apply_to = function)
#define TQ_TARGET native128
#include "../tq/simd/wide.h"
#include "native128.h"
#include "../tq/simd/registers.h"
#include "../tq/simd/madd.h"
#include "../tq/kernels/all.h"
#include "step.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx2,f16c,avxvnni"))), apply_to = function)
#define TQ_TARGET avxvnni
#include "step.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c"))), apply_to = function)
#define TQ_TARGET avx512
#include "step.h"
#include "stream.h"
#include "half_avx512.h"
#include "half_attention.h"
#undef TQ_TARGET
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c"))), apply_to = function)
#define TQ_TARGET avx512vnni
#include "step.h"
#undef TQ_TARGET
#pragma clang attribute pop
#endif
