"""The toy kernel table and its build, in place of the project's own kernels."""

from __future__ import annotations

from pathlib import Path

from tq_core.kernels.table import Arg, Kernel, Scalar
from wasm.recipe import Recipe

LAYOUT = Arg("layout", "u4", "in", (8,))
TOY_KERNELS = {
    k.name: k
    for k in (
        Kernel(
            "axpy",
            (Arg("x", "f4", "in", ("n", "d")), Arg("y", "f4", "inout", ("n", "d"))),
            ("n", "d"),
            (Scalar("negate", "u4"), Scalar("scale", "f4")),
            "exact_floats",
        ),
        Kernel(
            "stamp",
            (
                Arg("x", "u1", "in", ("p",)),
                Arg("pages", "u4", "in", ("p",)),
                LAYOUT,
                Arg("pool", "u1", "inout", ("b",)),
            ),
            ("p", "b"),
            (),
            "exact_bytes",
            paged=True,
        ),
        Kernel(
            "overrun", (Arg("y", "u1", "inout", ("n",)),), ("n",), (Scalar("extra", "u4"),), "exact_bytes"
        ),
        Kernel("spin", (Arg("y", "u1", "inout", ("n",)),), ("n",), (), "exact_bytes"),
        Kernel("trap", (Arg("y", "u1", "inout", ("n",)),), ("n",), (), "exact_bytes"),
        Kernel(
            "gather",
            (
                Arg("table", "u1", "in", (16,)),
                Arg("index", "u1", "in", ("n", 16)),
                Arg("y", "u1", "out", ("n", 16)),
            ),
            ("n",),
            (),
            "exact_bytes",
        ),
    )
}


def toy_recipe(out: Path) -> Recipe:
    return Recipe(out=out, kernels=TOY_KERNELS, include=Path(__file__).with_name("toy"), header="toy/toy.h")
