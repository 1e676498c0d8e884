// command.cpp as a WASI command: linear memory, and two calls declared by hand, since there is no
// libc and the kernels' object file is then the same in both kinds of module.
#pragma once
#include <stdint.h>

struct Span {
  void* data;
  uint32_t size;
};

extern "C" {
extern uint8_t __heap_base;
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_read"))) uint16_t fd_read(
    uint32_t fd, const Span* spans, uint32_t n_spans, uint32_t* transferred);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_write"))) uint16_t fd_write(
    uint32_t fd, const Span* spans, uint32_t n_spans, uint32_t* transferred);
}

namespace {

constexpr uint32_t kPageBytes = 65536;

uint32_t heap_base() { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&__heap_base)); }
uint64_t memory_bytes() { return uint64_t{__builtin_wasm_memory_size(0)} * kPageBytes; }

bool grow_to(uint32_t wanted) {
  if (wanted <= memory_bytes()) return true;
  const uint64_t missing = (wanted - memory_bytes() + kPageBytes - 1) / kPageBytes;
  return __builtin_wasm_memory_grow(0, static_cast<uint32_t>(missing)) != static_cast<uintptr_t>(-1);
}

bool read_some(void* data, uint32_t size, uint32_t* transferred) {
  const Span span{data, size};
  return fd_read(0, &span, 1, transferred) == 0 && *transferred != 0;
}

bool write_some(const void* data, uint32_t size, uint32_t* transferred) {
  const Span span{const_cast<void*>(data), size};
  return fd_write(1, &span, 1, transferred) == 0 && *transferred != 0;
}

}  // namespace
