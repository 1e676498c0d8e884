"""A real JupyterLab: it starts, serves the notebook, and its kernel runs the first notebook's cells."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.ioloop import IOLoop
from tornado.websocket import websocket_connect

from tq_core.paths import ROOT

pytestmark = pytest.mark.slow
START_SECONDS, CELL_SECONDS = 60, 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab that knows nothing of the user's settings."""
    home, port = tmp_path_factory.mktemp("lab"), free_port()
    folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    folders |= {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    environment = dict(os.environ) | {name: str(home / folder) for name, folder in folders.items()}
    environment |= {"TQ_NOTEBOOK_FAST": "1", "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ip=127.0.0.1",
    ]
    command += [
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=True",
    ]
    command += [f"--ServerApp.root_dir={ROOT}"]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield wait_for(f"http://127.0.0.1:{port}", server, home / "log")
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            get(address, "/api/status")
            return address
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
    raise AssertionError(f"JupyterLab did not start: {log.read_text(errors='replace')[-2000:]}")


def get(address: str, where: str, /, **post: Any) -> Any:
    """GET, or POST with JSON when there is something to post."""
    data = json.dumps(post).encode() if post else None
    request = urllib.request.Request(address + where, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        body = answer.read()
    return json.loads(body) if "json" in answer.headers.get("Content-Type", "") else body.decode()


async def run_cells(address: str, kernel: str, sources: list[str]) -> list[dict[str, Any]]:
    """Messages that the kernel sent while it ran the cells, through the server's websocket."""
    socket_ = await websocket_connect(f"{address.replace('http', 'ws')}/api/kernels/{kernel}/channels")
    found: list[dict[str, Any]] = []
    for number, source in enumerate(sources):
        content = {
            "code": source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
        }
        header = {
            "msg_id": f"cell-{number}",
            "username": "test",
            "session": "test",
            "msg_type": "execute_request",
            "version": "5.4",
        }
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
            "buffers": [],
        }
        await socket_.write_message(json.dumps(message))
        while True:
            raw = await socket_.read_message()
            assert raw is not None, "the server closed the connection"
            answer = json.loads(raw) if isinstance(raw, str) else {}
            if answer.get("parent_header", {}).get("msg_id") != f"cell-{number}":
                continue
            found.append(answer)
            if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
                break
    socket_.close()
    return found


def test_lab_serves_the_page_and_the_notebook(lab: str) -> None:
    page = get(lab, "/lab/tree/notebooks/00_start_here.ipynb")
    assert "jupyter-config-data" in page
    contents = get(lab, "/api/contents/notebooks/00_start_here.ipynb")
    assert contents["type"] == "notebook"


def test_lab_kernel_runs_the_first_notebook(lab: str) -> None:
    cells = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    # The cells between compare all engines; test_execute.py runs them.
    sources = [source for source in code if re.search(r"nb\.setup|check_lines|nb\.panel", source)]
    assert len(sources) == 3
    name = get(lab, "/api/kernelspecs")["default"]
    path = "notebooks/00_start_here.ipynb"
    session = get(lab, "/api/sessions", path=path, type="notebook", name=path, kernel={"name": name})

    async def run() -> list[dict[str, Any]]:
        return await run_cells(lab, session["kernel"]["id"], sources)

    messages = IOLoop().run_sync(run, timeout=CELL_SECONDS)
    errors = [m["content"]["evalue"] for m in messages if m["msg_type"] == "error"]
    assert errors == []
    shown = [m["content"]["data"] for m in messages if m["msg_type"] == "display_data"]
    assert any("application/vnd.jupyter.widget-view+json" in data for data in shown), (
        "no slider was displayed"
    )
    text = "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")
    assert "[OK] Python" in text
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in text
