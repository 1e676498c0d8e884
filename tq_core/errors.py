"""Every error that the library raises on purpose.

A message names the argument, what was expected and what came, and it is raised before anything
changes: a caller that catches one of these still holds the state it had before the call.
"""

from __future__ import annotations


class TqError(Exception):
    """Root of the typed errors; catch this to catch them all."""


class ArgumentError(TqError, ValueError):
    """An argument is outside what the function accepts."""


class ShapeError(ArgumentError):
    """An array has the wrong rank or extent."""


class DTypeError(ArgumentError):
    """An array has the wrong element type."""


class ValueRangeError(ArgumentError):
    """A value is outside its range, not finite, or does not fit the format that stores it."""


class CodecError(ArgumentError):
    """An unknown codec, arm, bit rate or option."""


class KernelError(TqError):
    """A kernel was called in a way that could touch memory it does not own."""


class BackendError(TqError):
    """A backend, target or wasm host is missing here or failed its self-test."""


class PageError(TqError):
    """A page or block table does not hold what it says it holds."""


class CacheStateError(TqError):
    """A call does not fit what the cache is doing: it is closed, or a step or checkpoint is open."""


class CacheFileError(TqError, ValueError):
    """A saved cache is damaged, cut short, of another kind, or could not be written or read."""


class IdentityMismatch(TqError):
    """A stored cache was made under another identity than the one that asks for it."""


class ModelFileError(TqError, ValueError):
    """A model file is truncated, tampered with, or of a kind that is not supported."""


class PromptFileError(TqError, ValueError):
    """A user's file of prompts cannot be read, or some of its lines are not prompts."""


class ModelUnavailable(TqError):
    """A model is neither in the cache directory nor obtainable now."""


def check(ok: bool, argument: str, expected: str, got: object, error: type[TqError] = ShapeError) -> None:
    """Raise ``error`` unless ``ok``, saying which argument, what was expected and what came."""
    if not ok:
        raise error(f"{argument}: expected {expected}, got {got}")
