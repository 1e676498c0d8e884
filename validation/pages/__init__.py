"""Pages of words - glossary, family of the methods, public claims - written by ``python -m validation.pages``.

They stand here, below ``validation``, because their numbers are its results, and are committed so that they read
well without running anything; ``make site`` puts them beside the notebooks.
"""
