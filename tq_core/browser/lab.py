"""A JupyterLab server with settings of its own: started, waited for, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tq_core.errors import TqError
from tq_core.paths import BUILD, ROOT

START_SECONDS = 60
FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}
# JupyterLab asks a server for news and for its newest version unless it is told not to.
OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    }
}


class LabError(TqError):
    """JupyterLab did not start."""


def copy_checkout(to: Path) -> Path:
    """Notebooks and packages without their tests, and the wasm modules: what notebooks write is then not the checkout's."""
    leave = shutil.ignore_patterns("tests", "__pycache__", ".ipynb_checkpoints")
    for name in ("notebooks", "tq_core", "validation", "wasm", "cpp"):
        shutil.copytree(ROOT / name, to / name, ignore=leave)
    if (BUILD / "wasm").is_dir():
        shutil.copytree(BUILD / "wasm", to / "build" / "wasm")
    return to


@contextlib.contextmanager
def running_lab(files: Path, home: Path, fast: bool = True) -> Iterator[str]:
    """The address of a JupyterLab that serves the folder ``files`` and keeps its own files in ``home``.

    Kernels import the packages in ``files``; ``fast`` asks the notebooks for reduced sizes. Raises LabError with
    the end of the log when the server is not up within START_SECONDS.
    """
    port = free_port()
    (home / "config" / "labconfig").mkdir(parents=True)
    (home / "config" / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(OVERRIDES))
    environment = dict(os.environ) | {name: str(home / folder) for name, folder in FOLDERS.items()}
    environment |= {"TQ_NOTEBOOK_FAST": "1" if fast else "0", "PYTHONPATH": str(files)}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [f"--port={port}", "--ip=127.0.0.1", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    command += ["--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={files}"]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield _wait_for(f"http://127.0.0.1:{port}", server, home / "log")
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            get(address, "/api/status")
            return address
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
    raise LabError(
        f"jupyterlab: expected an answer within {START_SECONDS} s, got none: {log.read_text(errors='replace')[-2000:]}"
    )


def get(address: str, where: str, /, **post: Any) -> Any:
    """GET, or POST with JSON when there is something to post; JSON is decoded."""
    data = json.dumps(post).encode() if post else None
    request = urllib.request.Request(address + where, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        body = answer.read()
    return json.loads(body) if "json" in answer.headers.get("Content-Type", "") else body.decode()
