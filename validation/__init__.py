"""Measuring, judging and reporting what tq_core does."""

import tq_core as _tq_core  # noqa: F401  before numpy: it fixes the threads of matrix products, which fix their last bits
