"""Statistics of paired comparisons. The unit is the prompt or document, never the token."""

from validation.stats.documents import BLOCK_TOKENS, block_interval, document_interval, interval
from validation.stats.family import holm, mcnemar_p, rejected
from validation.stats.flips import net_loss_at_most
from validation.stats.intervals import MIN_DOCUMENTS, RESAMPLES, Interval
from validation.stats.mean_bound import upper_mean
from validation.stats.noninferiority import NonInferiority, judge
from validation.stats.pairs import paired
from validation.stats.permutation import SignFlips, permutation_p, sign_flip_test
from validation.stats.power import needed_binary, needed_mean, power_binary, power_mean
from validation.stats.shares import share_at_least, share_at_most

__all__ = [
    "BLOCK_TOKENS",
    "MIN_DOCUMENTS",
    "RESAMPLES",
    "Interval",
    "NonInferiority",
    "SignFlips",
    "block_interval",
    "document_interval",
    "holm",
    "interval",
    "judge",
    "mcnemar_p",
    "needed_binary",
    "needed_mean",
    "net_loss_at_most",
    "paired",
    "permutation_p",
    "power_binary",
    "power_mean",
    "rejected",
    "share_at_least",
    "share_at_most",
    "sign_flip_test",
    "upper_mean",
]
