"""What README and CONTRIBUTING name exists: files, make targets, arms, markers."""

import re
from pathlib import Path

import pytest

from tq_core.codecs.arms import arm_names, calibrated_arm_names
from tq_core.model.sources import SOURCES
from tq_core.model.zoo import model_names

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
# Made by a target, or a pattern for the reader to fill in.
NOT_IN_GIT = {
    "build/browser",
    "build/compare",
    "build/parity",
    "build/report",
    "build/notebooks",
    "build/site",
    ".venv/bin/pre-commit",
    "notebooks/NN_slug.ipynb",
    "tq_core/codecs/<method>.py",
}


def named(document: str) -> list[str]:
    """Everything in backticks outside tables, and every line of the shell blocks."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    prose = re.sub(r"```.*?```|^\|.*?$", "", text, flags=re.S | re.M)
    return re.findall(r"`([^`]+)`", prose) + [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_paths_exist(document):
    paths = [
        word
        for text in named(document)
        for word in text.split()
        if re.fullmatch(r"[.\w<>-]+(/[.\w<>-]*)+", word)
    ]
    assert paths
    missing = [path for path in paths if path not in NOT_IN_GIT and not (ROOT / path).exists()]
    assert [path for path in missing if not path.startswith(".venv/")] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / document).read_text())
    assert [link for link in links if not link.startswith("https:") and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_make_targets_exist(document):
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    wanted = {match for text in named(document) for match in re.findall(r"^make ([a-z-]+)", text)}
    assert wanted and wanted <= targets


def test_start_with_column_names_files():
    rows = re.findall(r"^\| `([\w/]+/)` \|.*\| `([\w./]+)` \|$", (ROOT / "README.md").read_text(), flags=re.M)
    assert len(rows) >= 8
    assert [folder + name for folder, name in rows if not (ROOT / folder / name).exists()] == []


def test_every_arm_is_described():
    described = re.findall(r"^\| `([a-z0-9_-]+)` \|", (ROOT / "README.md").read_text(), flags=re.M)
    assert sorted(described) == sorted(arm_names() + calibrated_arm_names())


def test_every_model_is_described_with_its_terms():
    text = (ROOT / "README.md").read_text()
    section = text.split("\n### Models\n")[1].split("\n## ")[0]
    rows = {row.split("|")[1].strip(): row for row in re.findall(r"^\|.*$", section, flags=re.M)[2:]}
    assert list(rows) == model_names()
    for name, source in SOURCES.items():
        assert f"{source.file_bytes / 1e6:.0f} MB" in rows[name]
        for address in re.findall(r"https://\S+?(?=[,;]? )", source.terms):
            assert address in rows[name]
