// The kernels in 128-bit registers of this machine (with AVX's encoding): what a WebAssembly engine could reach with SIMD128. There to
// be compared with, not a target of the library.
namespace tq {
namespace TQ_TARGET {

constexpr int kRegsInPass = 1;
constexpr bool kOneSliceLoops = false;
constexpr uint32_t kCopies = 1;

typedef uint32_t Reg __attribute__((vector_size(16)));
typedef int32_t RegI __attribute__((vector_size(16)));
typedef Reg Table;

TQ_INLINE Table load_table(const uint8_t* p) { return (Table)_mm_loadu_si128((const __m128i*)p); }
TQ_INLINE Reg lookup16(Table table, Reg index) { return (Reg)_mm_shuffle_epi8((__m128i)table, (__m128i)index); }
TQ_INLINE RegI madd16(Reg a, Reg b) { return (RegI)_mm_madd_epi16((__m128i)a, (__m128i)b); }

}  // namespace TQ_TARGET
}  // namespace tq
