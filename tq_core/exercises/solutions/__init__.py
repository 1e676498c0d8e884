"""One file per notebook: the cells that solve its exercises, each after a line ``# %% number``.

They are text, read by ``tq_core.exercises.cells`` and run in notebooks, never imported.
"""
