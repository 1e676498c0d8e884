"""The conformance checks, one function each; ``checks`` says which apply to a codec.

A check takes a ``Bench``, returns nothing, and raises ``CheckFailed`` with expected and got.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np

from tq_core.codecs.base import describe
from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.variants import variants
from tq_core.errors import TqError
from tq_core.kernels.backend import NumpyBackend

# Reading the codes may round queries and weights to integers of 16 bits, or of 8 where a codec's arithmetic is
# "fast"; relative to the norms that are multiplied.
READ_TOLERANCE, FAST_TOLERANCE = 2e-5, 5e-3


def _expect(ok: bool, bench: Bench, expected: str, got: object) -> None:
    if not ok:
        side = "keys" if bench.is_key else "values"
        raise CheckFailed(
            f"{bench.codec} ({side}, head_dim {bench.head_dim}): expected {expected}, got {got}"
        )


def check_shapes_and_dtypes(bench: Bench) -> None:
    """decode and read give float32 of the documented shapes, for no tokens too."""
    for n in (0, bench.some):
        pages, given = bench.store(bench.tokens(n)), bench.question(n)
        decoded, read = bench.decode(pages, n), bench.read(pages, n, given)
        shape = (n, bench.n_kv_heads, bench.head_dim)
        _expect(
            decoded.shape == shape and decoded.dtype == np.float32,
            bench,
            f"float32 {shape}",
            (decoded.dtype, decoded.shape),
        )
        _expect(bool(np.isfinite(read).all()), bench, "every output written and finite", read)


def check_deterministic(bench: Bench) -> None:
    """Twice the same tokens, twice the same bytes."""
    x = bench.tokens(bench.some)
    _expect(np.array_equal(bench.store(x).pool, bench.store(x).pool), bench, "equal bytes", "different bytes")


def check_inputs_not_modified(bench: Bench) -> None:
    """Appending leaves the tokens, reading leaves the pages and the question as they were."""
    x, given = bench.tokens(bench.some), bench.question(bench.some)
    before = x.tobytes(), given.tobytes()
    pages = bench.store(x)
    pool, table = pages.pool.tobytes(), pages.table.tobytes()
    bench.read(pages, len(x), given)
    bench.decode(pages, len(x))
    after = (x.tobytes(), given.tobytes(), pages.pool.tobytes(), pages.table.tobytes())
    _expect(after == (*before, pool, table), bench, "unchanged inputs", "changed ones")


def check_batch_append_equals_single_appends(bench: Bench) -> None:
    """All at once, or ``flush_tokens`` at a time: the same bytes, across a page edge."""
    flush = int(bench.codec.flush_tokens)
    x = bench.tokens(bench.codec.page_tokens + flush)
    batch, single = bench.store(x), bench.store(x, step=flush)
    _expect(
        np.array_equal(batch.pool, single.pool),
        bench,
        "equal bytes",
        f"{int((batch.pool != single.pool).sum())} different ones",
    )


def check_erase(bench: Bench) -> None:
    """Taking tokens back leaves the bytes of a page that never held them, at every slot that can be the first to go."""
    flush, per = int(bench.codec.flush_tokens), int(bench.codec.page_tokens)
    x = bench.tokens(per)
    for first in range(0, per + 1, flush * max(1, 7 // flush)):
        shorter = bench.pages(per)
        bench.codec.append(bench.backend, shorter, 0, x[:first])
        longer = bench.store(x)
        bench.codec.erase(longer, int(longer.table[0]), first, bench.head_dim)
        different = int((longer.pool != shorter.pool).sum())
        _expect(different == 0, bench, f"the bytes of {first} tokens", f"{different} different ones")


def check_prefix(bench: Bench) -> None:
    """Later tokens do not change earlier ones, and a shorter decode is the start of a longer one."""
    n, flush = bench.some, int(bench.codec.flush_tokens)
    x = bench.tokens(n + flush)
    alone = bench.decode(bench.store(x[:n]), n)
    longer = bench.decode(bench.store(x, step=flush), n + flush)[:n]
    _expect(
        np.array_equal(alone, longer), bench, "the same first tokens", float(np.abs(alone - longer).max())
    )


def check_read_equals_decode(bench: Bench) -> None:
    """Scores and sums over the codes equal those over the decoded tokens; query head h reads KV head h // group."""
    for n in (1, bench.some):
        stored = max(n, int(bench.codec.flush_tokens))
        pages, given = bench.store(bench.tokens(stored)), bench.question(n)
        want, size = bench.exact(bench.decode(pages, n), given)
        worst = float((np.abs(bench.read(pages, n, given) - want) / size).max())
        fast = getattr(bench.codec, "arithmetic", "") == "fast"
        limit = bench.codec.tags.read_tolerance or (FAST_TOLERANCE if fast else READ_TOLERANCE)
        _expect(worst <= limit, bench, f"a relative difference up to {limit}", worst)


def check_touches_only_its_columns(bench: Bench) -> None:
    """Scores write their columns only; sums read theirs only and add to what is there."""
    n, offset = bench.some, 3
    pages = bench.store(bench.tokens(n))
    given = bench.question(n)
    if bench.is_key:
        wide = np.full((len(given), n + 5), -7, np.float32)
        bench.codec.scores(bench.backend, given, 0.5, pages, n, wide, offset)
        outside = np.delete(wide, np.s_[offset : offset + n], axis=1)
        _expect(bool((outside == -7).all()), bench, "other columns untouched", outside)
        got, want = wide[:, offset : offset + n], bench.read(pages, n, given, 0.5)
    else:
        wide = np.full((len(given), n + 5), 1e30, np.float32)
        wide[:, offset : offset + n] = given
        got, want = np.ones((len(given), bench.head_dim), np.float32), 1 + bench.read(pages, n, given)
        bench.codec.weighted_sum(bench.backend, wide, pages, n, offset, got)
    _expect(
        bool(np.allclose(got, want, rtol=1e-5, atol=1e-5)),
        bench,
        "the same numbers at an offset",
        float(np.abs(got - want).max()),
    )


def check_scale_equivariance(bench: Bench) -> None:
    """Four times the token is four times the decoded token, bit for bit, and no code changes."""
    x = bench.tokens(bench.some)
    small, large = bench.store(x), bench.store(4 * x)
    a, b = bench.decode(small, len(x)), bench.decode(large, len(x))
    _expect(np.array_equal(4 * a, b), bench, "4 * decode(x)", float(np.abs(4 * a - b).max()))
    streams = [name for name, _ in bench.codec.streams(bench.head_dim)]
    if len(streams) > 1:
        codes = next(name for name in streams if name.endswith("_codes"))
        same = np.array_equal(small.stack(codes, len(x)), large.stack(codes, len(x)))
        _expect(same, bench, "the same codes", "other codes")


def check_zero_tokens(bench: Bench) -> None:
    """Zeros decode to zeros and read as zeros."""
    x = np.zeros_like(bench.tokens(bench.some))
    pages = bench.store(x)
    read = bench.read(pages, len(x), bench.question(len(x)))
    _expect(not bench.decode(pages, len(x)).any() and not read.any(), bench, "zeros", read)


def check_constant_tokens(bench: Bench) -> None:
    """A constant stays finite and near: no division by an empty range.

    An unbiased estimator may be further off: at one bit per channel its error is pi/2 - 1.
    """
    x = np.full_like(bench.tokens(bench.some), 2.5)
    decoded = bench.decode(bench.store(x), len(x)).astype(np.float64)
    error = float(((decoded - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum())
    limit = 0.75 if bench.codec.tags.unbiased_scores else 0.45
    _expect(error < limit, bench, f"a relative error below {limit}", error)  # false for NaN too


def check_distortion_falls_with_bits(bench: Bench) -> None:
    """On Gaussian tokens within 15 % of [4^-b, sqrt(3) pi/2 4^-b] (Shannon, Panter-Dite), and less with more bits.

    Even steps over a group's whole range lie above that, the more the larger the group: they get twice the limit.
    """
    errors = {}
    for codec in [bench.codec, *variants(bench.codec, "bits")]:
        other = replace(bench, codec=codec)
        n = max(64, int(codec.flush_tokens))
        x = other.tokens(n).astype(np.float64)
        error = float(((other.decode(other.store(x.astype(np.float32)), n) - x) ** 2).sum() / (x**2).sum())
        ratio = error * 4.0 ** codec.nominal_bits(bench.head_dim)
        most = 1.15 * 2.7207 * (2 if codec.tags.min_max else 1)
        _expect(1 / 1.15 < ratio < most, other, f"an error of 0.87 to {most:.2f} times 4^-bits", ratio)
        errors[codec.nominal_bits(bench.head_dim)] = error
    falling = [errors[b] for b in sorted(errors)]
    _expect(
        len(falling) > 1 and falling == sorted(falling, reverse=True),
        bench,
        "less error with more bits",
        errors,
    )


def check_declared_bytes_are_the_real_ones(bench: Bench) -> None:
    """A full page determines every byte of the declared streams and writes no other; bits follow from bytes."""
    x, layout = bench.tokens(bench.codec.page_tokens), bench.pages(1).layout
    low, high = bench.store(x, fill=0x00), bench.store(x, fill=0xFF)
    written = int((low.pool == high.pool).sum())
    _expect(written == layout.payload_bytes, bench, f"{layout.payload_bytes} bytes written", written)
    for stream, nbytes in layout.streams:
        same = np.array_equal(low.stack(stream, 1), high.stack(stream, 1))
        _expect(
            same and low.stack(stream, 1).shape[-1] == nbytes,
            bench,
            f"all {nbytes} bytes of {stream} written",
            "some not",
        )
    codes = sum(nbytes for name, nbytes in layout.streams if name.endswith("_codes"))
    bits = 8 * codes / (layout.page_tokens * bench.head_dim)
    nominal = bench.codec.nominal_bits(bench.head_dim)
    _expect(abs(bits - nominal) < 1e-9, bench, f"{bits} nominal bits from the code streams", nominal)


def check_page_round_trip(bench: Bench) -> None:
    """Page bytes copied to other places of another pool decode to the same tokens."""
    x = bench.tokens(bench.codec.page_tokens + int(bench.codec.flush_tokens))
    pages, size = bench.store(x), bench.pages(1).layout.page_bytes
    moved = replace(pages, pool=np.full(pages.pool.size, 0xAA, np.uint8), table=np.array([2, 1], np.uint32))
    for source, target in zip(pages.table, moved.table):
        moved.pool[target * size : (target + 1) * size] = pages.pool[source * size : (source + 1) * size]
    same = np.array_equal(bench.decode(pages, len(x)), bench.decode(moved, len(x)))
    _expect(same, bench, "the same tokens from moved pages", "others")


def check_identity_names_every_field(bench: Bench) -> None:
    """Another value of any field is another identity, and the identity is plain JSON."""
    mine = json.dumps(describe(bench.codec), sort_keys=True)
    for field in fields(bench.codec):
        others = variants(bench.codec, field.name)
        if not others and getattr(bench.codec, field.name) is None:
            continue  # an option such as a calibration, which a check cannot invent
        _expect(bool(others), bench, f"a field {field.name} that takes another value", "none")
        for other in others:
            _expect(
                json.dumps(describe(other), sort_keys=True) != mine,
                bench,
                f"another identity for {other}",
                mine,
            )


def check_refuses_other_head_sizes(bench: Bench) -> None:
    """A head_dim that is neither a multiple of 16 in 16..256 nor 576 is a typed error."""
    for head_dim in (0, 8, 15, 24, 272, 560, 592):
        try:
            bench.codec.check(head_dim)
        except TqError:
            continue
        _expect(False, bench, f"a typed error for head_dim {head_dim}", "none")


def check_refuses_partial_groups(bench: Bench) -> None:
    """A codec that encodes groups refuses part of one, before it writes."""
    flush = int(bench.codec.flush_tokens)
    pages = bench.pages(2 * flush)
    for first, n in ((0, flush - 1), (1, flush), (0, flush + 1)):
        try:
            bench.codec.append(bench.backend, pages, first, bench.tokens(n))
        except TqError:
            _expect(not pages.pool.any(), bench, "untouched pages", "written ones")
            continue
        _expect(False, bench, f"a typed error for {n} tokens at {first}", "none")


def check_same_bits_as_numpy(bench: Bench) -> None:
    """Codes, and scores or sums, equal those of the numpy backend bit for bit."""
    x, reference = bench.tokens(bench.some), bench.with_backend(NumpyBackend())
    ours, theirs = bench.store(x), reference.store(x)
    _expect(
        np.array_equal(ours.pool, theirs.pool),
        bench,
        "numpy's bytes",
        f"{int((ours.pool != theirs.pool).sum())} others",
    )
    given = bench.question(len(x))
    a, b = bench.read(ours, len(x), given), reference.read(ours, len(x), given)
    _expect(a.tobytes() == b.tobytes(), bench, "numpy's bits", float(np.abs(a - b).max()))
