"""attnbook: attention mechanisms, each in one place, each tested. The library of the book "Attention, Cell by Cell"."""

from .mechanisms import (SCORES, AdditiveScore, Attended, ContentScore, DotScore, Dropout, FeedForward, GatedFeedForward,
                         GeneralScore, LayerNorm, LearnedPositions, LinformerAttention, LocalAttention, LocationScore,
                         MemoryCompressedAttention, MixtureOfExperts, MultiHeadAttention, PictureAttention,
                         PooledPictureAttention, PostNorm, PreNorm,
                         ReducedRankScore, RelativeMultiHeadAttention, RMSNorm, ScaledDotScore, Score, SinusoidalPositions, Switch,
                         address, attend, attend_window, causal_mask, make_score, masked_softmax, padding_mask, sinusoids)
from .models import (LSTMN, NTM, SNAIL, Bahdanau, Captioner, FeedForwardAttention, HierarchicalAttention, Luong, MemoryNetwork,
                     PointerNetwork, Seq2Seq, Transformer, TransformerEncoderModel, TransformerLM, paper_parts)

__version__ = "0.1.0"

__all__ = ["LSTMN", "NTM", "SCORES", "SNAIL", "AdditiveScore", "Attended", "Bahdanau", "Captioner", "ContentScore", "DotScore",
           "Dropout", "FeedForward", "FeedForwardAttention", "GatedFeedForward", "GeneralScore", "HierarchicalAttention",
           "LayerNorm", "LearnedPositions", "LinformerAttention", "LocalAttention", "LocationScore", "Luong",
           "MemoryCompressedAttention", "MemoryNetwork", "MixtureOfExperts", "MultiHeadAttention", "PictureAttention",
           "PointerNetwork", "PooledPictureAttention", "PostNorm", "PreNorm", "RMSNorm", "ReducedRankScore", "RelativeMultiHeadAttention", "ScaledDotScore", "Score",
           "Seq2Seq", "SinusoidalPositions", "Switch", "Transformer", "TransformerEncoderModel", "TransformerLM",
           "__version__", "address", "attend", "attend_window", "causal_mask", "make_score", "masked_softmax", "padding_mask",
           "paper_parts", "setup", "sinusoids"]


def __getattr__(name):
    # setup needs matplotlib and IPython, the mechanisms do not: a plain `import attnbook` stays light.
    if name == "setup":
        from .notebook import setup

        return setup
    raise AttributeError(f"module 'attnbook' has no attribute {name!r}")
