// One register of the target, where a scan keeps its sums: a vector is kLanes / kRegLanes of them. The target's
// header says how wide it is (Reg, RegI), how a byte lookup is done and how many registers share a multiplier.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kRegBytes = sizeof(Reg), kRegLanes = kRegBytes / 4;

TQ_INLINE Reg load_reg(const uint8_t* p) { Reg r; __builtin_memcpy(&r, p, kRegBytes); return r; }
TQ_INLINE void store_reg(int32_t* p, RegI x) { __builtin_memcpy(p, &x, kRegBytes); }
TQ_INLINE Reg every(uint32_t x) { return Reg{} + x; }

// A multiplier's word in all lanes, and four of them to memory. Where kCopies is 4, memory holds a whole register of each:
// an engine that takes two instructions for a broadcast reads an operand instead.
TQ_INLINE Reg load_word(const uint32_t* p) {
  if constexpr (kCopies == 1) return every(*p);
  else return load_reg((const uint8_t*)p);
}
TQ_INLINE void store_words(uint32_t* p, const uint32_t* words) {
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t copy = 0; copy < kCopies; ++copy) p[i * kCopies + copy] = words[i];
}

// The table's byte for the number below 16 in every lane.
TQ_INLINE U32 lookup_lanes(Table table, U32 index) {
  alignas(64) uint8_t bytes[64];
  store_row(bytes, index);
  for (uint32_t at = 0; at < sizeof bytes; at += kRegBytes) {
    const Reg found = lookup16(table, load_reg(bytes + at)) & every(255u);
    __builtin_memcpy(bytes + at, &found, kRegBytes);
  }
  return load_row(bytes);
}

}  // namespace TQ_TARGET
}  // namespace tq
