"""Real caches for the workbench panel: one KV head of several models' shapes, every codec, any context, in a few ten ms.

KV heads never meet in a cache, so one of them with the query heads that read it stands for the layer; memory is that of
the whole model. What takes time is done when the bench is made: vectors, exact answers, fits, compiling of kernels.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import arm_options, get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.shaped_arm import planned_best_turbo
from tq_core.errors import CodecError, TqError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.model.fixture import make_fixture
from tq_core.model.outline import KNOWN
from tq_core.shapes import ModelShape
from tq_core.show.attention import LayerBench, Reading
from tq_core.show.page_size import with_page_tokens

BEST = "best-turbo"
CONTEXTS = (256, 512, 1024, 2048, 4096)
# Codec to the longest context that a move can fill in well under 100 ms: some take longer to encode. All can have
# pages of any size.
LIMITS = {
    "structured-turbo": 4096,
    BEST: 1024,
    "structured-turbo-qjl": 1024,
    "turboquant-mse": 512,
    "eden": 4096,
    "kivi-control": 1024,
    "qserve": 2048,
    "int8": 4096,
    "q4_0": 4096,
}
MODELS = ("smollm2", "llama-1b", "llama-8b", "qwen-14b", "gemma3-270m", "tiny")
DECODED = 4  # last tokens, whose queries are compared
FIT_TOKENS = 256  # tokens after the longest context, on which best-turbo is fitted
KEPT_READINGS = 48
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Setting:
    """What a cache is made from."""

    codec: str
    key_bits: float
    value_bits: float
    window: int
    page_tokens: int


class Workbench:
    """Readings of real caches by model, context and setting. ``models`` and ``contexts`` are what can be asked for."""

    def __init__(
        self,
        models: tuple[str, ...] = MODELS,
        contexts: tuple[int, ...] = CONTEXTS,
        codecs: tuple[str, ...] = tuple(LIMITS),
        backend: Backend | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.models, self.contexts, self.codecs = models, contexts, codecs
        self.backend = backend or get_backend()
        self._readings: OrderedDict[tuple[Any, ...], Reading] = OrderedDict()
        self._calibrations: dict[str, dict[str, Any]] = {}
        self.benches: dict[tuple[str, int], LayerBench] = {}
        say = progress or (lambda what, done, total: None)
        dims = sorted({KNOWN[m].shape.head_dim for m in models})
        steps = len(dims) + len(codecs)
        for done, head_dim in enumerate(dims):
            say(f"vectors of head_dim {head_dim}", done, steps)
            self._prepare(head_dim)
        for done, codec in enumerate(codecs, len(dims)):  # its kernels are compiled at their first call
            say(f"kernels of {codec}", done, steps)
            options = {"window": 32, **self._fitted(models[0], codec)}
            self.benches[models[0], contexts[0]].read(get_arm(codec, **options))
        say("the bench is ready", steps, steps)

    def _prepare(self, head_dim: int) -> None:
        """One fixture serves all models of a head_dim: contexts are its beginnings, query heads its first ones."""
        same = [m for m in self.models if KNOWN[m].shape.head_dim == head_dim]
        groups = {m: KNOWN[m].shape.group_size_heads for m in same}
        most, end = max(groups.values()), max(self.contexts)
        f = make_fixture(shape=ModelShape(1, most, 1, head_dim), n_tokens=end + FIT_TOKENS)
        for model, group in groups.items():
            for n in self.contexts:
                arrays = f.queries[:n, :group], f.keys[:n], f.values[:n]
                self.benches[model, n] = LayerBench(*arrays, self.backend, DECODED)
            if BEST in self.codecs:
                k, v, q = (x[None, end:] for x in (f.keys, f.values, f.queries[:, :group]))
                fitted = fit_arm(BEST, k, v, None, q)
                sides = {"key": fitted.key_codec, "value": fitted.value_codec}
                self._calibrations[model] = {f"{s}_calibration": c.calibration for s, c in sides.items()}  # type: ignore[attr-defined]

    def _options(self, setting: Setting) -> dict[str, Any]:
        """Those of the settings that the codec knows; others, such as bits of int8, are its own."""
        wanted = {"key_bits": setting.key_bits, "value_bits": setting.value_bits, "window": setting.window}
        return {k: v for k, v in wanted.items() if k in arm_options(setting.codec)}

    def arm(self, model: str, setting: Setting) -> Arm:
        """The arm that the bench's caches have. Raises CodecError for settings that the codec does not take."""
        arm = get_arm(setting.codec, **self._options(setting), **self._fitted(model, setting.codec))
        return with_page_tokens(arm, setting.page_tokens)

    def planned_arm(self, model: str, setting: Setting) -> Arm:
        """The arm for the memory of the whole model: fitted tables have the size that all its heads need."""
        if setting.codec != BEST:
            return self.arm(model, setting)
        arm = planned_best_turbo(KNOWN[model].shape, **self._options(setting))
        return with_page_tokens(arm, setting.page_tokens)

    def _fitted(self, model: str, codec: str) -> dict[str, Any]:
        return self._calibrations[model] if codec == BEST else {}

    def reading(self, model: str, context: int, setting: Setting) -> Reading:
        """The cache's answers; the last few settings are kept. Raises CodecError, in a sentence, for what cannot be had."""
        key = (model, context, setting)
        if key not in self._readings:
            limit = LIMITS[setting.codec]
            check(
                context <= limit,
                "context",
                f"at most {limit:,} tokens for {setting.codec}, which would take too long for a slider beyond",
                f"{context:,}",
                CodecError,
            )
            self._readings[key] = self.benches[model, context].read(self.arm(model, setting))
            if len(self._readings) > KEPT_READINGS:
                self._readings.popitem(last=False)
        self._readings.move_to_end(key)
        return self._readings[key]

    @property
    def kept(self) -> int:
        """Readings that are kept now."""
        return len(self._readings)

    def refusal(self, setting: Setting, error: TqError) -> CodecError:
        """The error as a sentence that names the codec and says what the reader still sees."""
        return CodecError(
            f"{setting.codec} cannot be set like this. {error}. The picture still shows the settings before."
        )
