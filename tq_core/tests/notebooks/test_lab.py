"""A real JupyterLab: it starts, serves the notebook, and its kernel runs the first notebook's cells."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import nbformat
import pytest
from tornado.ioloop import IOLoop
from tornado.websocket import websocket_connect

from tq_core.browser.lab import get
from tq_core.paths import ROOT

pytestmark = pytest.mark.slow
CELL_SECONDS = 180


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
    sources = [source for source in code if re.search(r"nb\.setup|check_lines|DialPanel", source)]
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
