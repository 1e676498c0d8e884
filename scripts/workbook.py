"""The part of `make workbook` after the set-up: model, notebooks, report, verdict.

    .venv/bin/python scripts/workbook.py --model smollm2 --arm structured-turbo

A model that cannot be fetched does not stop it: the tiny model, which is part of the
repository, takes its place and the last lines say so. Exit 1 when a notebook or a
check failed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TQ = Path(sys.executable).with_name("tq")
PASS, FAILED, INCOMPLETE = 0, 1, 3  # exit codes of `tq validate`


def run(*command, capture=False):
    """Run a command of the environment with its progress on the terminal."""
    stdout = subprocess.PIPE if capture else None
    return subprocess.run([str(part) for part in command], cwd=ROOT, stdout=stdout, text=True)


def fetch_model(name):
    """Exit code of the fetch: 0 in place, INCOMPLETE when it cannot be had, else something is wrong."""
    print(f"[4/6] fetching the model {name}", flush=True)
    if name == "tiny":
        print("      part of the repository, nothing to fetch")
        return PASS
    return run(sys.executable, "-m", "tq_core.model.fetch", name).returncode


def execute_notebooks(folder):
    print("[5/6] running every notebook top to bottom", flush=True)
    command = [sys.executable, "-m", "tq_core.nbtools", "execute", "notebooks/", "--out", folder]
    return run(*command).returncode == 0


def write_report(model, arm, folder):
    """(exit code, the JSON that `tq validate` printed)."""
    print(f"[6/6] writing the validation report (model {model}, arm {arm})", flush=True)
    command = [TQ, "validate", "--model", model, "--fallback-tiny", "--arm", arm, "--out", folder, "--json"]
    if model == "smollm2":
        command += ["--study", "smollm2-brief"]  # the whole one takes a quarter of an hour: make report
    done = run(*command, capture=True)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        print(done.stdout)
        return done.returncode or FAILED, {}


def main():
    parser = argparse.ArgumentParser(description="run the workbook")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--arm", default="structured-turbo")
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    started = time.monotonic()
    fetched = fetch_model(options.model)
    # A model that is absent is still asked for, so that the report says what it stands for;
    # one whose file is not what it should be is not touched.
    model = options.model if fetched in (PASS, INCOMPLETE) else "tiny"
    notebooks_ran = execute_notebooks(Path(options.build) / "notebooks")
    code, result = write_report(model, options.arm, Path(options.build) / "report")

    print(f"\nfinished in {time.monotonic() - started:.0f} s")
    print(
        f"notebooks: {'all ran' if notebooks_ran else 'SOME FAILED, see above'} ({options.build}/notebooks)"
    )
    if fetched:
        print(
            f"real model: NOT EXERCISED, {options.model} could not be fetched; the tiny model took its place"
        )
    print(f"report:    {result.get('report', 'not written')}")
    print(f"verdict:   {result.get('status', 'none')}")
    fine = (PASS, INCOMPLETE)
    sys.exit(0 if notebooks_ran and code in fine and fetched in fine else 1)


if __name__ == "__main__":
    main()
