# %% 6.1
dot_source = """
// codes (d,) below 16, query (d,), levels (16,): grid positions; out (1,).
// numpy: out[0] = sum(query * (2 * levels[codes] - 255)), all in int32
#include <cstdint>
void dot_codes(const uint8_t* codes, const int16_t* query, const uint8_t* levels, int32_t* out, uint32_t d) {
  int32_t sum = 0;
  for (uint32_t j = 0; j < d; ++j) sum += query[j] * (2 * levels[codes[j]] - 255);
  out[0] = sum;
}
"""

# %% 6.2
score_source = """
// packed (n, d / 2): channel 2 i in the low four bits of byte i, 2 i + 1 in the high four; scale (n,),
// table (16,), query (d,), out (n,). d is a multiple of 16.
// numpy: out = lanes.dot(query, table[codes]) * scale, so: products to lane j % 16, folded 8, 4, 2, 1 apart
#include <cstdint>
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
