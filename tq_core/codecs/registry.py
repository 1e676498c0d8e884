"""Names to configured things, with collision errors and suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Generic, TypeVar

from tq_core.errors import CodecError

T = TypeVar("T")


class Registry(Generic[T]):
    """Factories by name; ``freeze`` ends registration."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._factories: dict[str, Callable[..., T]] = {}
        self._frozen = False

    def register(self, name: str, factory: Callable[..., T]) -> None:
        """Add a factory. Raises CodecError when the name is taken or the registry is frozen."""
        if self._frozen:
            raise CodecError(
                f"{self._kind}: expected an open registry, got a frozen one (registering {name!r})"
            )
        if name in self._factories:
            raise CodecError(f"{self._kind}: expected a new name, got {name!r}, which is registered")
        self._factories[name] = factory

    def freeze(self) -> None:
        """Refuse further registrations."""
        self._frozen = True

    def names(self) -> tuple[str, ...]:
        """Registered names in registration order."""
        return tuple(self._factories)

    def get(self, name: str) -> Callable[..., T]:
        """The factory called ``name``. Raises CodecError with the nearest names otherwise."""
        if not isinstance(name, str) or name not in self._factories:
            near = difflib.get_close_matches(str(name), self._factories, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise CodecError(
                f"{self._kind}: expected one of {', '.join(self._factories)}, got {name!r}{hint}"
            )
        return self._factories[name]
