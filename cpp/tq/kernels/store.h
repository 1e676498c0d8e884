// Codes that were found elsewhere, one to four bits each, into the tiles of a page with their tokens' scales.
namespace tq {
namespace TQ_TARGET {

template <bool kKeys>
TQ_INLINE void store_codes(const uint8_t* codes, const uint16_t* scales, const uint8_t* widths, const uint32_t* pages,
                           const uint32_t* layout_words, uint8_t* pool, uint32_t n, uint32_t h, uint32_t r, uint32_t groups,
                           uint32_t first) {
  const Layout layout = read_layout(layout_words);
  const uint32_t stride = tile_bytes(widths, groups);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t page = (first + i) / layout.page_tokens, slot = (first + i) % layout.page_tokens;
    for (uint32_t head = 0; head < h; ++head, codes += r, ++scales) {
      uint8_t* base = pool + head_base(layout, pages[page], head);
      __builtin_memcpy(base + (kKeys ? layout.key_scales : layout.value_scales) + 2 * slot, scales, 2);
      uint8_t* tile = base + (kKeys ? layout.key_codes : layout.value_codes) + size_t(slot / kTileTokens) * stride;
      if (kKeys) {
        pack_key(tile, codes, widths, groups, slot);
      } else {
        pack_value(tile, codes, widths, groups, slot);
      }
    }
  }
}

TQ_KERNEL inline void store_key_codes(const uint8_t* codes, const uint16_t* scales, const uint8_t* widths,
                                      const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t n, uint32_t h,
                                      uint32_t r, uint32_t g, uint32_t, uint32_t, uint32_t first) {
  store_codes<true>(codes, scales, widths, pages, layout, pool, n, h, r, g, first);
}

TQ_KERNEL inline void store_value_codes(const uint8_t* codes, const uint16_t* scales, const uint8_t* widths,
                                        const uint32_t* pages, const uint32_t* layout, uint8_t* pool, uint32_t n, uint32_t h,
                                        uint32_t r, uint32_t g, uint32_t, uint32_t, uint32_t first) {
  store_codes<false>(codes, scales, widths, pages, layout, pool, n, h, r, g, first);
}

}  // namespace TQ_TARGET
}  // namespace tq
