"""A synthetic model for fast tests, and the real one where its file is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tq_core.errors import ModelUnavailable
from tq_core.model.transformer import DecoderModel
from tq_core.model.zoo import load_model
from tq_core.tests.model import synthetic


@pytest.fixture(scope="session")
def synthetic_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("gguf") / "synthetic.gguf")


@pytest.fixture(scope="session")
def synthetic_model(synthetic_path: Path) -> DecoderModel:
    return synthetic.load(synthetic_path)


def real(name: str) -> DecoderModel:
    """A real model; without its file the tests that ask for it say that they were not exercised."""
    try:
        model = load_model(name, may_fetch=False)
    except ModelUnavailable as error:
        pytest.skip(f"real model not exercised: {error}")
    assert isinstance(model, DecoderModel)
    return model


@pytest.fixture(scope="session")
def smollm2() -> DecoderModel:
    return real("smollm2")


@pytest.fixture(scope="session")
def gemma() -> DecoderModel:
    return real("gemma")
