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
from .transformer import Transformer
from .transformer_language import TransformerEncoderModel, TransformerLM
from .transformer_parts import Parts, alternating, paper_parts
from .transformer_syntactic import SyntacticEncoderModel

__all__ = ["LSTMN", "NTM", "Bahdanau", "Captioner", "FeedForwardAttention", "FixedDictionary", "HierarchicalAttention",
           "LSTMLanguageModel", "Luong", "MemoryNetwork", "Parts", "PointerNetwork", "Seq2Seq", "SyntacticEncoderModel",
           "Transformer", "TransformerEncoderModel", "TransformerLM", "alternating", "paper_parts"]
