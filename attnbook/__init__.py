"""attnbook: attention mechanisms, each in one place, each tested. The library of the book "Attention, Cell by Cell"."""

from .mechanisms import (SCORES, AdditiveScore, Attended, ContentScore, DotScore, GeneralScore, LocationScore,
                         MultiHeadAttention, ReducedRankScore, ScaledDotScore, Score, address, attend, attend_window, causal_mask,
                         make_score, masked_softmax, padding_mask)
from .models import (Bahdanau, Captioner, FeedForwardAttention, HierarchicalAttention, LSTMN, Luong, MemoryNetwork,
                     NTM, PointerNetwork, Seq2Seq)

__version__ = "0.1.0"

__all__ = ["LSTMN", "NTM", "SCORES", "AdditiveScore", "Attended", "Bahdanau", "Captioner", "ContentScore", "DotScore",
           "FeedForwardAttention", "GeneralScore", "HierarchicalAttention", "LocationScore", "Luong", "MemoryNetwork",
           "MultiHeadAttention", "PointerNetwork", "ReducedRankScore", "ScaledDotScore", "Score", "Seq2Seq", "__version__",
           "address", "attend", "attend_window", "causal_mask", "make_score", "masked_softmax", "padding_mask", "setup"]


def __getattr__(name):
    # setup needs matplotlib and IPython, the mechanisms do not: a plain `import attnbook` stays light.
    if name == "setup":
        from .notebook import setup

        return setup
    raise AttributeError(f"module 'attnbook' has no attribute {name!r}")
