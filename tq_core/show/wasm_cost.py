"""What WebAssembly costs: one decode step on every native target and every engine, and a host's calls and copies apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tq_core.errors import BackendError, KernelError, check
from tq_core.kernels.backend import get_backend
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.show import native128
from tq_core.show.guest_step import GuestStep
from tq_core.show.ladder import differing
from tq_core.show.node_step import NodeStep
from tq_core.show.page_set import PageSet
from tq_core.show.rungs import native_targets
from tq_core.show.speed import interleaved
from tq_core.show.work import F32, fused_step

WASM_TARGETS = ("scalar", "simd128")
NATIVE_128 = "native 128-bit"


@dataclass(frozen=True)
class Split:
    """Microseconds of one decode step through one host. ``checked``: called as any backend is, arrays copied in and out."""

    host: str
    calls: float
    kernels: float
    copy: float
    checked: float


class Contest:
    """A decode step ready on every engine; each was run once and has numpy's bits. Close it: guests may be processes.

    ``natives`` are targets, all by default; ``missing`` are (name, reason). Raises KernelError when an engine's bits differ.
    """

    def __init__(self, data: PageSet, natives: Sequence[str] | None = None) -> None:
        self._natives = native_targets() if natives is None else list(natives)
        self.data, self.missing = data, list[tuple[str, str]]()
        self._stack = contextlib.ExitStack()
        self._twin = fused_step(data).on_numpy()
        self.runs: dict[str, Any] = {}
        self.guests: dict[str, GuestStep] = {}

        try:
            self._add_natives()
            for target in WASM_TARGETS:
                self._add_guests(target)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all guests; safe to call twice."""
        self._stack.close()

    @contextlib.contextmanager
    def _or_missing(self, name: str) -> Iterator[None]:
        try:
            yield
        except BackendError as error:
            self.missing.append((name, str(error)))

    def _verified(self, name: str, output: F32) -> None:
        wrong = differing(output, self._twin)
        check(wrong == 0, name, "the bits of the numpy twins", f"{wrong} numbers that differ", KernelError)

    def _add_natives(self) -> None:
        with self._or_missing("native targets"):
            for target in self._natives:
                self._add_native(f"native-{target}", fused_step(self.data).native(target))
        with self._or_missing(NATIVE_128):
            self._add_native(NATIVE_128, fused_step(self.data).bare(native128.load()))

    def _add_native(self, name: str, runner: Any) -> None:
        runner.run()
        self._verified(name, runner.output)
        self.runs[name] = runner.run

    def _add_guests(self, target: str) -> None:
        for status in host_statuses():
            name = f"wasm-{target}@{status.name}"
            if not status.available:
                self.missing.append((name, status.reason))
                continue
            with self._or_missing(name):
                step = GuestStep(fused_step(self.data), HOSTS[status.name], target)
                self._stack.callback(step.close)
                step.run()
                self._verified(name, step.output())
                self.runs[name], self.guests[name] = step.run, step
        with self._or_missing(f"wasm-{target}@node"):
            node = NodeStep(fused_step(self.data), target)
            self._stack.callback(node.close)
            node.run()
            self._verified(node.name, node.output())
            self.runs[node.name] = node

    def measure(self, rounds: int = 7) -> dict[str, float]:
        """ns per token and KV head of a step whose arrays are in place, calls included."""
        return {name: 1e9 * s / self.data.units for name, s in interleaved(self.runs, rounds).items()}

    def split(self, target: str = "simd128", rounds: int = 15) -> list[Split]:
        """Where the time of one step goes on every Python host that runs ``target``; the least of the rounds.

        A difference is taken, and it must not be the difference of two interruptions.
        """
        found = []
        for name, step in self.guests.items():
            if not name.startswith(f"wasm-{target}@"):
                continue
            runs = {
                "step": step.run,
                "empty": step.empty_call,
                "copy": step.copy_pool,
                "checked": self._checked(name),
            }
            us = {what: 1e6 * s for what, s in interleaved(runs, rounds, 0.001, min).items()}
            calls = len(step.placed.calls) * us["empty"]
            found.append(
                Split(name.split("@")[1], calls, max(us["step"] - calls, 0.0), us["copy"], us["checked"])
            )
        return found

    def _checked(self, name: str) -> Any:
        backend, work = get_backend(name), fused_step(self.data)

        def run() -> None:
            work.reset()
            for kernel, arguments in work.calls:
                backend.call(kernel, **arguments)

        return run


def ratio_rows(ns: dict[str, float], bases: tuple[str, ...]) -> list[list[object]]:
    """(engine, ns, how many times slower than each base that was measured)."""
    return [
        [name, taken, *[f"{taken / ns[base]:.2f} x" if base in ns else "-" for base in bases]]
        for name, taken in ns.items()
    ]
