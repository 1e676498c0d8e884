"""Arms that are fitted to a model, on texts that the run does not score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import calibrated_arm_names
from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.compare.documents import CALIBRATION_EPISODE
from validation.compare.fitting import fit_on
from validation.compare.store import Store
from validation.controls import arm_for
from validation.scenarios import Document, episode_documents, text_document, text_entries

CALIBRATION_TEXTS, TOKENS = 12, 512
TINY_TOKENS = 192


def calibration_texts(model: LanguageModel, scored: Sequence[Document]) -> list[np.ndarray]:
    """Token ids of the manifest's last texts that are not scored, or of episodes of the tiny model's task.

    Raises ValueRangeError where every text is scored.
    """
    if model.name == "tiny":
        return [d.tokens for d in episode_documents(4, TINY_TOKENS, CALIBRATION_EPISODE)]
    read = {d.sha256 for d in scored}
    free = [e for e in text_entries() if e["sha256"] not in read]
    check(
        bool(free), "tokens", "fewer texts, so that some are left to fit the arm on", "all", ValueRangeError
    )
    return [text_document(model, e, TOKENS).tokens for e in free[-CALIBRATION_TEXTS:]]


def arm_on(model: LanguageModel, scored: Sequence[Document], name: str, **options: Any) -> Arm:
    """The arm for validation, fitted where it must be. What was fitted is kept in the user's cache directory.

    Raises the errors of ``arm_for`` and of the method's fit.
    """
    if name not in calibrated_arm_names():
        return arm_for(name, **options)
    given = {k: v for k, v in options.items() if v is not None}
    return fit_on(model, name, calibration_texts(model, scored), Store(), given)
