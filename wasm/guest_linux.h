// command.cpp as a Linux program for a 64-bit processor. Frames carry 32-bit addresses, so the memory
// that they address is mapped below 4 GiB, at its own address: what a frame says is a pointer.
#pragma once
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr uint32_t kHeapBase = 0x10000000;  // above where the linker puts the program
constexpr uint32_t kStep = 65536;           // the largest page size that an aarch64 kernel may have

uint64_t heap_end = kHeapBase;

uint32_t heap_base() { return kHeapBase; }
uint64_t memory_bytes() { return heap_end; }

// The address is a wish: whatever else is mapped there stays, and the wish is then not granted.
bool grow_to(uint32_t wanted) {
  if (wanted <= heap_end) return true;
  const uint64_t size = (wanted - heap_end + kStep - 1) / kStep * kStep;
  void* at = reinterpret_cast<void*>(heap_end);
  void* got = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got != at) {
    if (got != MAP_FAILED) munmap(got, size);
    return false;
  }
  heap_end += size;
  return true;
}

bool read_some(void* data, uint32_t size, uint32_t* transferred) {
  ssize_t n;
  do n = read(STDIN_FILENO, data, size);
  while (n < 0 && errno == EINTR);
  *transferred = n > 0 ? static_cast<uint32_t>(n) : 0;
  return n > 0;
}

bool write_some(const void* data, uint32_t size, uint32_t* transferred) {
  ssize_t n;
  do n = write(STDOUT_FILENO, data, size);
  while (n < 0 && errno == EINTR);
  *transferred = n > 0 ? static_cast<uint32_t>(n) : 0;
  return n > 0;
}

}  // namespace
