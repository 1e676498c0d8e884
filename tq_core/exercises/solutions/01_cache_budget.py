# %% 1.1
def my_bytes_per_token(n_layers, n_query_heads, n_kv_heads, head_dim, value_bytes):
    """Bytes that one token adds to the cache, an int: 2 L H_kv d s. All arguments are ints.

    Spec: the sum of `nbytes` of one key and one value array of shape (n_layers, n_kv_heads, head_dim).
    """
    return 2 * n_layers * n_kv_heads * head_dim * value_bytes


# %% 1.2
def my_longest_context(budget, pairs, key_bits, value_bits, window):
    """The most tokens that fit into `budget` bytes, an int.

    pairs: L * H_kv * d, key channels of a token, each with its value channel (int).
    key_bits, value_bits: bits per channel of the codes (float). window: newest tokens, kept in float16 (int).
    Spec: the largest T with pairs * (4 * min(T, window) + max(T - window, 0) * (key_bits + value_bits) / 8) <= budget.
    """
    held = 4 * pairs * window
    if budget < held:
        return budget // (4 * pairs)
    return window + int((budget - held) * 8 // (pairs * (key_bits + value_bits)))
