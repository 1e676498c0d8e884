# %% 4.1
import numpy as np


def my_pack(codes):
    """Codes (n,) uint8 below 8 to packed bytes (ceil(3 n / 8),) uint8.

    Spec: bit (3 * i + b) % 8 of byte (3 * i + b) // 8 is bit b of codes[i], for b = 0, 1, 2; all others are 0.
    """
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :3]
    return np.packbits(bits.ravel(), bitorder="little")


# %% 4.2
def my_bits_all_in(streams, n_kv_heads, page_tokens, head_dim):
    """Bits per channel (a float) of a full page.

    streams: name -> bytes of that stream for one KV head and all `page_tokens` tokens (dict of int).
    Spec: 8 * (64 + n_kv_heads * block) / (number of key channels and value channels in the page).
    """
    aligned = sum(-(-nbytes // 16) * 16 for nbytes in streams.values())
    block = -(-aligned // 64) * 64
    return 8 * (64 + n_kv_heads * block) / (2 * n_kv_heads * page_tokens * head_dim)
