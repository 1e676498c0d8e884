// One register of the target, where a scan keeps its sums: a vector is kLanes / kRegLanes of them. The target's
// header says how wide it is (Reg, RegI), how a byte lookup is done and how many registers share a multiplier.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kRegBytes = sizeof(Reg), kRegLanes = kRegBytes / 4;

TQ_INLINE Reg load_reg(const uint8_t* p) { Reg r; __builtin_memcpy(&r, p, kRegBytes); return r; }
TQ_INLINE void store_reg(int32_t* p, RegI x) { __builtin_memcpy(p, &x, kRegBytes); }
TQ_INLINE Reg every(uint32_t x) { return Reg{} + x; }

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
