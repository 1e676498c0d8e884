"""`tq sweep`: a grid of arms, bits, windows, models and workloads, read on one machine or on many."""
