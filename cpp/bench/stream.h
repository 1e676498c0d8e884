// Reading memory as fast as a core can: what the roofline is drawn from. Sums, so that no load can be left out.
namespace tq_bench {
namespace TQ_TARGET {

typedef uint64_t Words __attribute__((vector_size(64)));

// One pass over `nbytes` (a multiple of 256 * kStreams), as kStreams runs read side by side; a prefetch runs ahead
// of each, since the hardware follows few streams at once.
template <int kStreams, int... kIndex>
TQ_INLINE uint64_t read_streams(const uint8_t* data, size_t nbytes, std::integer_sequence<int, kIndex...>) {
  constexpr size_t kAhead = 4096;
  const size_t part = nbytes / kStreams;
  Words sums[4 * kStreams] = {};
  for (size_t at = 0; at < part; at += 256) {
    for (int s = 0; s < kStreams; ++s)
      for (int line = 0; line < 4; ++line) __builtin_prefetch(data + s * part + at + 64 * line + kAhead);
    ((sums[kIndex] += *reinterpret_cast<const Words*>(data + (kIndex / 4) * part + at + 64 * (kIndex % 4))), ...);
  }
  Words total = {};
  ((total += sums[kIndex]), ...);
  return total[0] + total[1] + total[2] + total[3] + total[4] + total[5] + total[6] + total[7];
}

// `data` is 64-byte aligned; with two or more parts each part is read by a thread of its own.
inline void read_sum(uint32_t calls, uint32_t parts, uint32_t streams, const uint8_t* data, uint64_t nbytes, uint64_t* out) {
  const size_t share = nbytes / parts;
  run_parts(parts, [&](uint32_t part) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < calls; ++i) {
      const uint8_t* from = data + part * share;
      asm volatile("" : "+r"(from) : : "memory");
      total += streams == 4 ? read_streams<4>(from, share, std::make_integer_sequence<int, 16>())
                            : read_streams<1>(from, share, std::make_integer_sequence<int, 4>());
    }
    out[part] = total;
  });
}

}  // namespace TQ_TARGET
}  // namespace tq_bench
