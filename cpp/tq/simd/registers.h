// One register of the target, where a scan keeps its sums: a vector is kLanes / kRegLanes of them. The target's
// header says how wide it is (Reg, RegI), how a byte lookup is done and how many registers share a multiplier.
namespace tq {
namespace TQ_TARGET {

constexpr uint32_t kRegBytes = sizeof(Reg), kRegLanes = kRegBytes / 4;

TQ_INLINE Reg load_reg(const uint8_t* p) { Reg r; __builtin_memcpy(&r, p, kRegBytes); return r; }
TQ_INLINE void store_reg(int32_t* p, RegI x) { __builtin_memcpy(p, &x, kRegBytes); }
TQ_INLINE Reg every(uint32_t x) { return Reg{} + x; }

}  // namespace TQ_TARGET
}  // namespace tq
