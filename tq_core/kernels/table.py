"""One entry per C++ kernel: argument names, element types, roles, size relations.

This table is the only description of a kernel's signature. From it come the argument checks, the
cppyy calls, the wasm exports and their marshalling, and the ids of the parity test. The C++ side is
``void name(arrays..., uint32_t sizes..., scalars...)`` in the order given here.

Sizes are inferred from the arrays' shapes: a size that occurs twice must agree everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["in", "out", "inout"]
CTYPES = {
    "f4": "float",
    "u1": "uint8_t",
    "i1": "int8_t",
    "u2": "uint16_t",
    "i2": "int16_t",
    "u4": "uint32_t",
    "i4": "int32_t",
}


@dataclass(frozen=True)
class Arg:
    """An array argument: ``shape`` mixes size names and fixed extents."""

    name: str
    dtype: str
    role: Role
    shape: tuple[str | int, ...]


@dataclass(frozen=True)
class Scalar:
    """A number passed by value: ``u4`` or ``f4``."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Kernel:
    """A kernel's whole signature. ``paged`` kernels address a page pool through a block table."""

    name: str
    args: tuple[Arg, ...]
    sizes: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    family: Literal["exact_bytes", "exact_floats"]
    paged: bool = False

    def c_parameters(self) -> list[tuple[str, str]]:
        """(C type, name) of every parameter, in call order."""
        arrays = [((("const " if a.role == "in" else "") + CTYPES[a.dtype] + "*"), a.name) for a in self.args]
        sizes = [("uint32_t", s) for s in self.sizes]
        return arrays + sizes + [(CTYPES[s.dtype], s.name) for s in self.scalars]


def _kernel(
    name: str, spec: str, family: Literal["exact_bytes", "exact_floats"], paged: bool = False
) -> Kernel:
    """Read ``"in x f4[n,d]; out y f4[n,d]; u4 mode; f4 scale"``; sizes are listed as they first occur."""
    args: list[Arg] = []
    scalars: list[Scalar] = []
    sizes: list[str] = []
    for part in (p.strip() for p in spec.split(";") if p.strip()):
        words = part.split()
        if len(words) == 2:
            scalars.append(Scalar(words[1], words[0]))
            continue
        role, arg_name, typed = words
        dtype, extents = typed.rstrip("]").split("[")
        shape = tuple(int(e) if e.isdigit() else e for e in extents.split(","))
        args.append(Arg(arg_name, dtype, role, shape))  # type: ignore[arg-type]
        sizes = list(dict.fromkeys([*sizes, *(e for e in shape if isinstance(e, str))]))
    return Kernel(name, tuple(args), tuple(sizes), tuple(scalars), family, paged)


# d head_dim, m Hadamard order, g = d/16 dim groups, q query heads, s score stride,
# p pages in the block table, b bytes of the pool, h KV heads, w rows of the book table, c parts of the
# history, k logits that no value belongs to (none, or one: a learned sink), r and v rows of two sketches
# (r also the channels of codes that are stored), t tokens that have q / t query heads each and a span: first slot, count.
_ROTATION = "in signs f4[d]; in hadamard f4[m,m]"
_BOOK = "in widths u1[g]; in levels u1[w,16]; in book_scale f4[w]"
_PAGES = "in pages u4[p]; in layout u4[9]"
_CENTRED = (
    "in centre_query f4[q,e]"  # e = 0: the keys are not centred; e = d: the unrotated query times the scale
)
_SPAN = "u4 n_kv_heads; u4 n_tokens; u4 offset"  # slots 0..n_tokens-1; column of the first one

# Rows of a sketch of outlier channels, offsets in a head's block of what it has beside the key streams, constants.
_SKETCH = (
    "u4 n_outliers; u4 outliers_at; u4 outer_scales_at; u4 outer_codes_at; f4 inner_factor; f4 outer_factor"
)
_STATE = "inout peak f4[q]; inout total f4[q]; inout out f4[q,d]"

KERNELS: dict[str, Kernel] = {
    k.name: k
    for k in (
        _kernel("rotate", f"in x f4[n,d]; {_ROTATION}; out y f4[n,d]; u4 inverse; f4 scale", "exact_floats"),
        _kernel(
            "encode_rows",
            f"in x f4[n,d]; {_ROTATION}; {_BOOK}; in boundaries f4[w,16]; out codes u1[n,d]; out scales u2[n]; u4 norm_mode",
            "exact_bytes",
        ),
        _kernel(
            "append_keys",
            f"in x f4[n,h,d]; {_ROTATION}; {_BOOK}; in boundaries f4[w,16]; {_PAGES}; inout pool u1[b]; u4 norm_mode; u4 first; u4 centre_tokens",
            "exact_bytes",
            paged=True,
        ),
        _kernel(
            "append_values",
            f"in x f4[n,h,d]; {_ROTATION}; {_BOOK}; in boundaries f4[w,16]; {_PAGES}; inout pool u1[b]; u4 norm_mode; u4 first",
            "exact_bytes",
            paged=True,
        ),
        _kernel(
            "quantize_query",
            "in x f4[q,d]; out query i2[q,d]; out step f4[q]; f4 scale; f4 limit",
            "exact_bytes",
        ),
        _kernel(
            "score_keys",
            f"in query i2[q,d]; in step f4[q]; {_CENTRED}; {_BOOK}; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_keys_f32",
            f"in query f4[q,d]; {_CENTRED}; {_BOOK}; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_values",
            f"in weights f4[q,s]; {_BOOK}; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_values_f32",
            f"in weights f4[q,s]; {_BOOK}; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_f16",
            f"in query f4[q,d]; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; u4 first; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_f16",
            f"in weights f4[q,s]; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}; u4 first",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_affine",
            f"in query f4[q,d]; in form u4[5]; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_affine",
            f"in weights f4[q,s]; in form u4[5]; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_bytes",
            f"in query f4[q,d]; in form u4[15]; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_bytes",
            f"in weights f4[q,s]; in form u4[15]; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "attend_packed",
            f"in query i2[q,d]; in step f4[q]; {_CENTRED}; in key_widths u1[g]; in value_widths u1[g]; in levels u1[w,16]; "
            f"in book_scale f4[w]; {_PAGES}; in pool u1[b]; {_STATE}; u4 n_kv_heads; u4 n_tokens; u4 first; u4 small",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "attend_half",
            f"in query f4[q,d]; {_PAGES}; in pool u1[b]; {_STATE}; u4 n_kv_heads; u4 n_tokens; u4 first; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "attend_packed_each",
            f"in query i2[q,d]; in step f4[q]; {_CENTRED}; in key_widths u1[g]; in value_widths u1[g]; in levels u1[w,16]; "
            f"in book_scale f4[w]; {_PAGES}; in pool u1[b]; in spans u4[t,2]; {_STATE}; u4 n_kv_heads; u4 small",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "attend_half_each",
            f"in query f4[q,d]; {_PAGES}; in pool u1[b]; in spans u4[t,2]; {_STATE}; u4 n_kv_heads; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "merge_states",
            "in peaks f4[c,q]; in totals f4[c,q]; in outs f4[c,q,d]; in sink f4[k,q]; out y f4[q,d]",
            "exact_floats",
        ),
        _kernel("map_heads", "in x f4[n,q,d]; in w f4[h,d,d]; out y f4[n,q,d]", "exact_floats"),
        _kernel(
            "shape_codes",
            "in y f4[n,h,d]; in metric f4[h,d,d]; in widths u1[g]; in levels u1[w,16]; in book_scale f4[w];"
            " in boundaries f4[w,16]; out codes u1[n,h,d]; out scales u2[n,h]; u4 passes",
            "exact_bytes",
        ),
        _kernel(
            "store_key_codes",
            f"in codes u1[n,h,r]; in scales u2[n,h]; in widths u1[g]; {_PAGES}; inout pool u1[b]; u4 first",
            "exact_bytes",
            paged=True,
        ),
        _kernel(
            "store_value_codes",
            f"in codes u1[n,h,r]; in scales u2[n,h]; in widths u1[g]; {_PAGES}; inout pool u1[b]; u4 first",
            "exact_bytes",
            paged=True,
        ),
        _kernel(
            "score_signs",
            f"in query i2[q,d]; in step f4[q]; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; u4 add",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_signs",
            f"in weights f4[q,s]; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_sketch",
            f"in query f4[q,d]; in sketched f4[q,r]; in inner f4[d,r]; in outer f4[d,v]; {_PAGES}; in pool u1[b]; "
            f"inout scores f4[q,s]; {_SPAN}; {_SKETCH}",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "score_polar",
            f"in query f4[q,d]; in angles f4[4,4]; {_PAGES}; in pool u1[b]; inout scores f4[q,s]; {_SPAN}; f4 scale",
            "exact_floats",
            paged=True,
        ),
        _kernel(
            "sum_polar",
            f"in weights f4[q,s]; in angles f4[4,4]; {_PAGES}; in pool u1[b]; inout out f4[q,d]; {_SPAN}",
            "exact_floats",
            paged=True,
        ),
        _kernel("softmax", "inout scores f4[q,s]; u4 n_tokens", "exact_floats"),
        _kernel("linear", "in x f4[n,i]; in w f4[o,i]; out y f4[n,o]", "exact_floats"),
    )
}

# Entries of `layout`, all in bytes but the first: how a page is divided. A kernel uses the entries
# it needs: the coded kernels the code and scale offsets and, where keys are centred, the float16 centre;  the fp16 kernels `key_codes` or
# `value_codes` as the start of plain fp16 rows.
LAYOUT = (
    "page_tokens",
    "page_bytes",
    "header_bytes",
    "head_bytes",
    "key_scales",
    "key_codes",
    "value_scales",
    "value_codes",
    "key_centres",
)
