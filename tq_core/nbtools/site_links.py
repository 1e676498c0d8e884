"""Links of a committed page in the site: to the other pages, to copies of the files that they name, pictures put in."""

from __future__ import annotations

import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path

from tq_core.errors import ValueRangeError

_LINK = re.compile(r'(<(?:a|img)\b[^>]*?\b(?:href|src)=")([^"]*)(")')
_KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg"}
EXTERNAL = ("https:", "http:", "//", "mailto:", "data:")


class Links:
    """Rewrites the links of pages. ``pages`` maps a path in the repository to a page of the site.

    Files of the repository that a page links to get a page of their own under source/; ``wanted`` collects them.
    """

    def __init__(self, root: Path, pages: Mapping[str, str]) -> None:
        self._root, self._pages = root, pages
        self.wanted: dict[str, str] = {}

    def rewrite(self, body: str, source: str) -> str:
        """The body of the page made from ``source``. Raises ValueRangeError for a link that leads nowhere."""
        return _LINK.sub(lambda m: m[1] + escape(self._target(m, source)) + m[3], body)

    def _target(self, found: re.Match[str], source: str) -> str:
        link = unescape(found[2])
        if link.startswith((*EXTERNAL, "#")):
            return link
        path, _, fragment = link.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        hash_part = f"#{fragment.lower()}" if fragment else ""
        if wanted in self._pages:
            return self._pages[wanted] + hash_part
        file = self._root / wanted
        if wanted.startswith("..") or not file.exists():
            raise ValueRangeError(f"{source}: expected links to files of this repository, got {link!r}")
        if found[1].startswith("<img"):
            return _data_uri(file, source)
        if file.suffix in _KINDS:
            raise ValueRangeError(f"{source}: expected a picture to be shown, got a link to it: {link!r}")
        self.wanted[wanted] = f"source/{wanted.rstrip('/')}.html"
        return self.wanted[wanted]


def _data_uri(file: Path, source: str) -> str:
    kind = _KINDS.get(file.suffix)
    if kind is None:
        raise ValueRangeError(f"{source}: expected a picture as one of {', '.join(_KINDS)}, got {file.name}")
    return f"data:{kind};base64,{b64encode(file.read_bytes()).decode()}"
