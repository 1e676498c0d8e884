"""A child process that answers one JSON line for every JSON line."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tq_core.errors import BackendError
from tq_core.paths import ROOT

ANSWER_SECONDS = 300.0


class LineProcess:
    """``label`` names the child in errors. Raises BackendError when it cannot be started."""

    def __init__(
        self, label: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._label = label
        try:
            self._process = subprocess.Popen(
                list(command), cwd=ROOT, env=None if environment is None else dict(environment), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            raise BackendError(f"{label}: cannot be started: {error}") from error

    def ask(self, request: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """One request, one answer. Raises BackendError when the child says so, ends, or is silent for too long."""
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None or sent.closed:
            raise BackendError(f"{self._label}: the child was ended")
        with contextlib.suppress(OSError):  # what it said before it ended is still to be read
            sent.write(json.dumps(request) + "\n")
            sent.flush()
        ready, _, _ = select.select([received], [], [], seconds)
        line = received.readline() if ready else ""
        if not line:
            self.close()
            state = f"exit code {self._process.returncode}" if ready else "no answer"
            raise BackendError(f"{self._label}: expected an answer within {seconds:g} s, got {state}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise BackendError(f"{self._label}: {reply['error']}")
        return reply

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the child: close its input, and kill it if that is not enough. Safe to call twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
