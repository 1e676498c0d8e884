"""Whether two PNG files show the same picture: decoded pixels, with a tolerance for a number's last bit alone.

A point that moves by a third of a pixel is found: 0.11 % of a small figure's pixels then differ by more than LEVELS. The
last bit of a number may change the choice of 64 colours in show/plates.py: that made 0.02 % at most in three figures.
Another matplotlib or freetype sets every text anew, which no tolerance that still sees a moved marker can forgive: such
a machine does not compare pictures, and says so.
"""

from __future__ import annotations

import io
from base64 import b64decode

import matplotlib
import numpy as np
from matplotlib import ft2font
from PIL import Image

LEVELS = 48  # of 255: a pixel is another one when one of its channels differs by more
SHARE = 0.0005  # of a picture's pixels may be other ones
DRAWN_WITH = ("3.11.2", "2.14.3")  # the matplotlib and freetype of the committed pictures


def unlike_the_committed() -> str:
    """Why pictures drawn here cannot be compared with the committed ones; empty when they can."""
    here = (matplotlib.__version__, str(ft2font.__freetype_version__))
    if here == DRAWN_WITH:
        return ""
    return f"drawn here by matplotlib {here[0]} with freetype {here[1]}, committed by {' with '.join(DRAWN_WITH)}"


def _pixels(png: str) -> np.ndarray:
    with Image.open(io.BytesIO(b64decode(png))) as picture:
        return np.asarray(picture.convert("RGBA"), np.int16)


def difference(committed: str, fresh: str) -> str:
    """What differs between two PNG files in base64, in words; empty when nothing does within the tolerance."""
    if committed == fresh:
        return ""
    old, new = _pixels(committed), _pixels(fresh)
    if old.shape != new.shape:
        return f"the picture has {new.shape[1]} x {new.shape[0]} pixels, committed {old.shape[1]} x {old.shape[0]}"
    other = np.abs(old - new).max(axis=2) > LEVELS
    if other.mean() <= SHARE:
        return ""
    rows, columns = np.nonzero(other)
    where = f"columns {columns.min()} to {columns.max()}, rows {rows.min()} to {rows.max()}"
    return f"{other.mean():.2%} of the picture's pixels differ by more than {LEVELS} levels, at most {SHARE:.2%}; {where}"
