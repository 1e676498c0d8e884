"""TurboQuant Workbook: the library behind the notebooks.

Layers, each importing only from those to its right:
exercises > show > model > cache > codecs > kernels > math > shapes, errors.
"""

import os

# One BLAS thread unless the user says otherwise: the products here are small, and OpenBLAS threads that
# wait for a busy core make a decode step several times slower. Only effective before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
