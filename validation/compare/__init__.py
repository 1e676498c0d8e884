"""`tq compare`: every arm at every rate on the same vectors, model, ledger and full-precision mask."""
