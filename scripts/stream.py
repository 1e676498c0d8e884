"""Run a command with its progress visible and its whole output kept in a log.

Standard library only: the set-up uses it before anything is installed.
"""

import subprocess
import sys
import threading
import time

QUIET_SECONDS = 20  # after this long without a line, say that the work goes on
TAIL_LINES = 40


def tell(text):
    print(f"      {text}", flush=True)


def run(command, log, cwd, show=lambda line: None):
    """Run ``command``; for each line of its output print what ``show`` makes of it, if anything.

    Everything goes to the file ``log``. When the command fails, its last lines are
    printed and the program exits with 1.
    """
    command = [str(part) for part in command]
    with open(log, "a", encoding="utf-8") as record:
        record.write("\n$ " + " ".join(command) + "\n")
        with subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            tail = follow(process, record, show)
    if process.returncode:
        print("\n".join(tail), file=sys.stderr)
        print(f"\nfailed (exit {process.returncode}): {' '.join(command)}", file=sys.stderr)
        print(f"whole output: {log}\nRunning the same target again is safe.", file=sys.stderr)
        sys.exit(1)


def follow(process, record, show):
    """Copy the output to ``record`` until the process ends; return the last lines."""
    started = latest = time.monotonic()
    tail: list = []
    ended = threading.Event()

    def reassure():
        nonlocal latest
        while not ended.wait(1):
            if time.monotonic() - latest > QUIET_SECONDS:
                latest = time.monotonic()
                tell(f"... still working ({latest - started:.0f} s)")

    watcher = threading.Thread(target=reassure, daemon=True)
    watcher.start()
    for line in process.stdout:
        record.write(line)
        tail = [*tail[-TAIL_LINES:], line.rstrip()]
        shown = show(line.strip())
        if shown:
            latest = time.monotonic()
            tell(shown)
    process.wait()
    ended.set()
    watcher.join()
    return tail
