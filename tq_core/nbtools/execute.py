"""Running a notebook top to bottom in a fresh kernel of this interpreter."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tq_core.paths import ROOT

Progress = Callable[[str], None]


class ThisInterpreter(KernelSpecManager):
    """Knows one kernel, this interpreter's own: one that the user installed elsewhere cannot step in."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kernel_dirs = []
        self.ensure_native_kernel = True


class ThisKernelManager(AsyncKernelManager):
    """Starts kernels of this interpreter. Given as a class, so that the client owns its kernel and ends it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "kernel_spec_manager": ThisInterpreter()})


class Client(NotebookClient):
    """Answers SIGINT and SIGTERM by ending the kernel, as its parent does, and knows that it did."""

    async def _async_cleanup_kernel(self) -> None:
        if self.km is not None:  # a signal's clean-up and the regular one may both come
            await super()._async_cleanup_kernel()

    @property
    def stopped(self) -> bool:
        """Whether a signal ended the kernel."""
        return getattr(self, "_async_cleanup_kernel_future", None) is not None


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``failure`` is empty when every cell ran, else it names the cell."""

    path: Path
    notebook: Any
    seconds: float
    code_cells: int
    failure: str = ""


def _first_line(cell: Any) -> str:
    line = cell.source.strip().splitlines()[0] if cell.source.strip() else ""
    return line if len(line) <= 70 else line[:67] + "..."


def _environment() -> dict[str, str]:
    """The kernel's environment: this source tree is importable, whether it was installed or not."""
    environment = dict(os.environ)
    known = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{known}" if known else str(ROOT)
    return environment


def _tail(log: IO[bytes]) -> str:
    """The end of what the kernel's process itself wrote to stderr."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return (
        "\n".join(line for line in lines if "over TCP without encryption" not in line)[-400:].strip()
        or "none"
    )


def execute(path: Path, timeout: int, progress: Progress) -> Outcome:
    """Run every code cell of ``path``, none skipped; ``timeout`` in seconds holds for each cell.

    A cell that raises, hangs or takes the kernel down ends the run and is named in the outcome. Raises
    KeyboardInterrupt when the process was told to stop; the kernel has ended then.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    begun = cell_begun = time.monotonic()
    current = -1

    def on_start(cell: Any, cell_index: int) -> None:
        nonlocal cell_begun, current
        cell_begun, current = time.monotonic(), cell_index

    def on_executed(cell: Any, cell_index: int, execute_reply: Any) -> None:
        took = time.monotonic() - cell_begun
        done = code.index(cell_index) + 1
        progress(f"{path.stem}  cell {done}/{len(code)}  {took:6.1f} s  {_first_line(cell)}")

    client = Client(
        notebook,
        kernel_manager_class=ThisKernelManager,
        kernel_name="python3",
        timeout=timeout,
        resources={"metadata": {"path": str(path.parent)}},
        skip_cells_with_tag="",
        coalesce_streams=True,
        store_widget_state=False,
        shutdown_kernel="immediate",
        on_cell_start=on_start,
        on_cell_executed=on_executed,
    )
    failure = ""
    log = tempfile.TemporaryFile()
    try:
        client.execute(env=_environment(), stderr=log)
    except CellExecutionError as error:
        failure = f"{error.ename}: {error.evalue}"
    except CellTimeoutError:
        failure = f"no answer within {timeout} s"
    except DeadKernelError:
        failure = f"the kernel died (native code crashed, or memory ran out); its last words: {_tail(log)}"
    except RuntimeError as error:  # the kernel never came up
        failure = f"{error}; its last words: {_tail(log)}"
    except AssertionError:  # the client's own, when a signal took its connection away
        if not client.stopped:
            raise
    finally:
        log.close()
    if client.stopped:
        raise KeyboardInterrupt
    if failure:
        where = f"cell {current + 1}, {_first_line(notebook.cells[current])!r}" if current >= 0 else "start"
        failure = f"{path.name}: {where}: {failure}"
    return Outcome(path, notebook, time.monotonic() - begun, len(code), failure)
