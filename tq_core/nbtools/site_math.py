"""LaTeX to MathML when the page is made: browsers draw it without a script, screen readers read it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

from tq_core.errors import ValueRangeError

# How many children MathML Core wants; a browser shows any other number as an error or as a plain row.
CHILDREN = {
    "mfrac": 2,
    "mroot": 2,
    "msub": 2,
    "msup": 2,
    "munder": 2,
    "mover": 2,
    "msubsup": 3,
    "munderover": 3,
}
_LEFT_OVER = re.compile(r"[\\{}&$]")  # LaTeX that the converter passed on as letters
_ESCAPED = re.compile(r"\\[{}&$]")  # these are meant to be seen


def _problem(root: ElementTree.Element, latex: str) -> str:
    for element in root.iter():
        name = element.tag.rsplit("}", 1)[-1]
        wanted = CHILDREN.get(name)
        if wanted is not None and len(element) != wanted:
            return f"a {name} with {wanted} parts, got {len(element)}"
        if _LEFT_OVER.search(element.text or "") and not _ESCAPED.search(latex):
            return f"commands that are known, got {element.text!r}"
    return ""


def mathml(latex: str, block: bool) -> str:
    """A <math> element for a formula; ``block`` puts it on a line of its own. The LaTeX stays as alttext.

    Raises ValueRangeError for a formula that cannot be converted whole.
    """
    shown = " ".join(latex.split())
    try:
        text = convert(latex.strip(), display="block" if block else "inline")
        root = ElementTree.fromstring(text)
    except Exception as error:  # the converter's errors have no common base
        raise ValueRangeError(
            f"formula: expected LaTeX that can be converted, got {shown!r} ({type(error).__name__})"
        ) from error
    if problem := _problem(root, latex):
        raise ValueRangeError(f"formula: expected {problem} in {shown!r}")
    ElementTree.register_namespace("", "http://www.w3.org/1998/Math/MathML")
    root.set("alttext", shown)
    return ElementTree.tostring(root, encoding="unicode")
