# %% 7.1
def my_addresses(sizes, heap_base):
    """Addresses (list of int, one per array) for arrays of `sizes` bytes in linear memory.

    Spec: the lowest addresses with address[i] % 64 == 0 and address[i] >= 64 + end of array i - 1, where array -1
    ends at heap_base.
    """
    found, cursor = [], heap_base
    for size in sizes:
        address = -(-(cursor + 64) // 64) * 64
        found.append(address)
        cursor = address + size
    return found


# %% 7.2
wasm_source = """
// packed (n, d / 2): channel 2 i in the low four bits of byte i, 2 i + 1 in the high four; scale (n,),
// table (16,), query (d,), out (n,). d is a multiple of 16.
// numpy: out = lanes.dot(query, table[codes]) * scale, so: products to lane j % 16, folded 8, 4, 2, 1 apart
#include <stdint.h>
void score_4bit(const uint8_t* packed, const float* scale, const float* table, const float* query, float* out,
                uint32_t n, uint32_t d) {
  for (uint32_t t = 0; t < n; ++t) {
    float lane[16] = {};
    for (uint32_t j = 0; j < d; ++j) {
      const uint8_t byte = packed[t * (d / 2) + j / 2];
      lane[j % 16] += query[j] * table[j % 2 ? byte >> 4 : byte & 15];
    }
    for (uint32_t half = 8; half; half /= 2)
      for (uint32_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    out[t] = lane[0] * scale[t];
  }
}
"""
