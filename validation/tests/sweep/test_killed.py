"""A sweep that is killed at any moment goes on from the readings that it kept, to the same digest."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from validation.sweep.result import make_result
from validation.tests.sweep.conftest import MINI

KILLS = 2


def _start(folder, path):
    settings = {
        **os.environ,
        "TQ_CACHE_DIR": str(folder),
        "TQ_REFERENCE_DIR": str(folder / "reference"),
        "TQ_BACKEND": "numpy",
    }
    command = [sys.executable, "-m", "validation.cli", "sweep", str(path), "--json", "--quiet"]
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _kept(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "readings").glob("*.json")}


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on_to_the_same_digest(swept, tmp_path):
    path = tmp_path / "mini.yaml"
    path.write_text(json.dumps(MINI))
    rng, kept = random.Random(), {}
    for kill in range(KILLS):
        process = _start(tmp_path, path)
        # From the first new reading on, so that kills fall into the work and not into the start of Python.
        until = time.monotonic() + 120
        while len(_kept(tmp_path)) <= len(kept) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = _kept(tmp_path)
        assert {n: now[n] for n in kept} == kept, "a reading that was there was written again"
        assert len(now) > len(kept), f"kill {kill} left nothing new"
        kept = now
    process = _start(tmp_path, path)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    found = json.loads(out)
    assert found["result_digest"] == make_result(swept, {"command": ""})["result_digest"]
    assert found["run"]["reused"] == len(kept) and found["run"]["computed"] == swept.computed - len(kept)
    assert {n: _kept(tmp_path)[n] for n in kept} == kept


@pytest.mark.slow
def test_interrupted_it_says_that_it_goes_on(tmp_path):
    path = tmp_path / "mini.yaml"
    path.write_text(json.dumps({**MINI, "workloads": [{"name": "episodes", "prompts": 50, "tokens": 80}]}))
    process = _start(tmp_path, path)
    until = time.monotonic() + 120
    while not _kept(tmp_path) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on from there" in said
