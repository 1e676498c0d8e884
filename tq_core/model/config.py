"""Sizes and constants of a llama-architecture model, from the metadata of its GGUF file."""

from __future__ import annotations

from dataclasses import dataclass

from tq_core.errors import ModelFileError, ShapeError
from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.shapes import ModelShape

ARCHITECTURE = "llama"
MAX_CONTEXT_LENGTH = 1 << 17
# Options of the architecture that change the forward pass and that the runtime does not have.
_ABSENT = ("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.expert_count")


@dataclass(frozen=True)
class LlamaConfig:
    """Everything about a llama-architecture model but its weights.

    ``rope_theta`` is the base of the rotary frequencies; GGUF files of this architecture keep query
    and key channels in the order that rotates adjacent pairs (2 i, 2 i + 1).
    """

    name: str
    shape: ModelShape
    vocab_size: int
    context_length: int
    embedding_size: int
    feed_forward_size: int
    rope_theta: float
    rms_epsilon: float
    tied_output: bool

    @classmethod
    def from_gguf(cls, file: GgufFile) -> LlamaConfig:
        """Read the configuration; ModelFileError names the field that is missing or out of range."""
        architecture = file.metadata("general.architecture", str)
        require(architecture == ARCHITECTURE, "general.architecture", ARCHITECTURE, architecture)
        for key in _ABSENT:
            value = file.header.metadata.get(key)
            require(value in (None, 0, "none"), key, "no such option", value)

        def size(key: str, limit: int = 1 << 24, default: int | None = None) -> int:
            value = file.metadata(key, int, default)
            require(1 <= value <= limit, key, f"1..{limit}", value)
            return value

        def positive(key: str, default: float | None = None) -> float:
            value = file.metadata(key, float, default)
            require(0.0 < value < 1e12, key, "a positive number", value)
            return value

        n_query_heads = size("llama.attention.head_count", 1 << 12)
        embedding_size = size("llama.embedding_length")
        divides = embedding_size % n_query_heads == 0
        got = f"{embedding_size} / {n_query_heads}"
        require(divides, "llama.embedding_length", "a multiple of llama.attention.head_count", got)
        head_dim = embedding_size // n_query_heads
        for key in (
            "llama.rope.dimension_count",
            "llama.attention.key_length",
            "llama.attention.value_length",
        ):
            rotated = size(key, default=head_dim)
            require(rotated == head_dim, key, f"head_dim {head_dim}", rotated)
        try:
            shape = ModelShape(
                n_layers=size("llama.block_count", 1 << 10),
                n_query_heads=n_query_heads,
                n_kv_heads=size("llama.attention.head_count_kv", 1 << 12, default=n_query_heads),
                head_dim=head_dim,
            )
        except ShapeError as error:
            raise ModelFileError(f"attention shape of {file.name}: {error}") from error
        return cls(
            name=file.metadata("general.name", str, file.name),
            shape=shape,
            vocab_size=len(file.metadata("tokenizer.ggml.tokens", list)),
            context_length=size("llama.context_length", MAX_CONTEXT_LENGTH),
            embedding_size=embedding_size,
            feed_forward_size=size("llama.feed_forward_length"),
            rope_theta=positive("llama.rope.freq_base", 10000.0),
            rms_epsilon=positive("llama.attention.layer_norm_rms_epsilon"),
            tied_output="output.weight" not in file.header.tensors,
        )

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the model by its GGUF name; matrices are (n_out, n_in)."""
        embedding, hidden = self.embedding_size, self.feed_forward_size
        kv_size = self.shape.n_kv_heads * self.shape.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.vocab_size, embedding),
            "output_norm.weight": (embedding,),
        }
        if not self.tied_output:
            shapes["output.weight"] = (self.vocab_size, embedding)
        for layer in range(self.shape.n_layers):
            block = {
                "attn_norm": (embedding,),
                "attn_q": (embedding, embedding),
                "attn_k": (kv_size, embedding),
                "attn_v": (kv_size, embedding),
                "attn_output": (embedding, embedding),
                "ffn_norm": (embedding,),
                "ffn_gate": (hidden, embedding),
                "ffn_up": (hidden, embedding),
                "ffn_down": (embedding, hidden),
            }
            shapes.update({f"blk.{layer}.{name}.weight": shape for name, shape in block.items()})
        return shapes
