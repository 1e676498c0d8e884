"""``python -m validation.pages`` writes the pages and pictures; ``--check`` only says which ones differ.

Exit 0 when all is well, 1 when a committed page differs. Pictures depend on the versions of fonts and plotting
libraries, so the check reads their text alternatives, which stand in the pages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tq_core.cache.atomic import replace_file
from tq_core.paths import ROOT
from validation.pages import claims, family, glossary

HERE = Path(__file__).parent
PAGES: dict[str, Callable[[], str]] = {
    "glossary.md": glossary.text,
    "family.md": family.text,
    "claims.md": claims.text,
}


def differing(folder: Path = HERE) -> list[str]:
    """Names of pages that are missing or not what their text is now."""

    def held(name: str) -> str | None:
        path = folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return [name for name, text in PAGES.items() if held(name) != text()]


def write(folder: Path = HERE, readme: Path = ROOT / "README.md") -> list[Path]:
    """Write pages, pictures, and the picture's words in the README; each file is replaced whole. Returns their paths."""
    from validation.pages import first_slider, tree

    files = {name: text().encode() for name, text in PAGES.items()}
    files[family.PICTURE] = (tree.svg() + "\n").encode()
    files[first_slider.PICTURE] = first_slider.png()
    told = first_slider.readme(readme.read_text(encoding="utf-8"))
    paths = {folder / name: data for name, data in files.items()} | {readme: told.encode()}
    for path, data in paths.items():
        replace_file(path, [data])
    return list(paths)


def main(arguments: list[str] | None = None) -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation.pages", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 when a page would change"
    )
    options = parser.parse_args(arguments)
    if options.check:
        found = differing()
        for name in found:
            print(f"{name}: differs from what python -m validation.pages writes")
        return 1 if found else 0
    for path in write():
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
