// The loop of a guest: read a request frame, do it in the guest's memory, write a response frame.
// hosts/frames.py describes the frames and is where the constants of command_table.h come from.
//
// There is no allocator: everything from heap_base() on belongs to the host, which lays out its
// buffers there exactly as it does for a module with exports. What differs between a WASI command
// and a Linux program (memory, and the two ends of the pipes) is in a header of its own.
#include <stdint.h>

#include "command_table.h"  // generated: constants, dispatch()
#if defined(__wasm__)
#include "guest_wasi.h"
#else
#include "guest_linux.h"
#endif

namespace {

constexpr uint32_t kHeadWords = 6;

struct Range {
  uint32_t address, size;
};

uint32_t words[kMaxWords];
Range writes[kMaxRanges], reads[kMaxRanges];

void* at(uint32_t address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

// False at the end of the stream, which is how a host asks the loop to stop.
bool read_all(void* data, uint32_t size) {
  for (uint32_t done = 0, n; size; size -= n, done += n)
    if (!read_some(static_cast<uint8_t*>(data) + done, size, &n)) return false;
  return true;
}

bool write_all(const void* data, uint32_t size) {
  for (uint32_t done = 0, n; size; size -= n, done += n)
    if (!write_some(static_cast<const uint8_t*>(data) + done, size, &n)) return false;
  return true;
}

bool in_heap(const Range* ranges, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (ranges[i].address < heap_base() || uint64_t{ranges[i].address} + ranges[i].size > memory_bytes()) return false;
  return true;
}

bool respond(Status status) {
  // The size of a full 4 GiB memory does not fit: report the last byte instead of 0.
  const uint64_t size = memory_bytes();
  const uint32_t head[4] = {kMagic, static_cast<uint32_t>(status), size >> 32 ? UINT32_MAX : static_cast<uint32_t>(size),
                            heap_base()};
  return write_all(head, sizeof head);
}

// One frame. False ends the loop: the stream is over, or what follows in it cannot be told.
bool serve() {
  uint32_t head[kHeadWords];
  if (!read_all(head, sizeof head)) return false;
  const uint32_t kernel = head[1], n_words = head[3], n_writes = head[4], n_reads = head[5];
  if (head[0] != kMagic || n_words > kMaxWords || n_writes > kMaxRanges || n_reads > kMaxRanges) {
    respond(Status::BAD_FRAME);
    return false;
  }
  if (!read_all(words, n_words * 4) || !read_all(writes, n_writes * 8) || !read_all(reads, n_reads * 8)) return false;
  const bool grown = grow_to(head[2]);
  if (!grown || !in_heap(writes, n_writes) || !in_heap(reads, n_reads)) {
    respond(grown ? Status::BAD_ADDRESS : Status::NO_MEMORY);
    return false;
  }
  for (uint32_t i = 0; i < n_writes; ++i)
    if (!read_all(at(writes[i].address), writes[i].size)) return false;
  if (kernel != kNoKernel && !dispatch(kernel, words, n_words)) return respond(Status::UNKNOWN_KERNEL);
  if (!respond(Status::OK)) return false;
  for (uint32_t i = 0; i < n_reads; ++i)
    if (!write_all(at(reads[i].address), reads[i].size)) return false;
  return true;
}

}  // namespace

#if defined(__wasm__)
extern "C" __attribute__((export_name("_start"))) void _start() {
  while (serve()) {
  }
}
#else
int main() {
  while (serve()) {
  }
}
#endif
