"""TurboQuant Workbook: the library behind the notebooks.

Layers, each importing only from those to its right:
show > model > cache > codecs > kernels > math > shapes, errors.
"""

__version__ = "0.1.0"
