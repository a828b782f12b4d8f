"""Whole systems, one file each."""

from .bahdanau import Bahdanau
from .captioner import Captioner
from .feed_forward_attention import FeedForwardAttention
from .hierarchical import HierarchicalAttention
from .language import LSTMLanguageModel
from .lstmn import LSTMN
from .luong import Luong
from .memory_network import MemoryNetwork
from .ntm import NTM
from .pointer import PointerNetwork
from .pointer_baselines import FixedDictionary
from .seq2seq import Seq2Seq

__all__ = ["LSTMN", "NTM", "Bahdanau", "Captioner", "FeedForwardAttention", "FixedDictionary", "HierarchicalAttention",
           "LSTMLanguageModel", "Luong", "MemoryNetwork", "PointerNetwork", "Seq2Seq"]
