"""Whole systems, one file each."""

from .captioner import Captioner
from .documents.feed_forward_attention import FeedForwardAttention
from .documents.hierarchical import HierarchicalAttention
from .documents.memory_network import MemoryNetwork
from .gan.blocks import DCGAN_BLOCKS, RESIDUAL_BLOCKS, ResidualInstead
from .gan.sagan import (
    PictureDiscriminator,
    PictureGenerator,
    PicturePair,
    attention_scales,
    dcgan_pair,
    sagan_pair,
)
from .ntm import NTM
from .pointer.fixed_dictionary import FixedDictionary
from .pointer.network import PointerNetwork
from .rnn.bahdanau import Bahdanau
from .rnn.lstm_language_model import LSTMLanguageModel
from .rnn.lstmn import LSTMN
from .rnn.luong import Luong
from .rnn.seq2seq import Seq2Seq
from .snail.few_shot import FewShotSNAIL, PictureEmbedding, Prototypes
from .snail.network import SNAIL
from .transformer.encoder_decoder import Transformer
from .transformer.language_model import TransformerEncoderModel, TransformerLM
from .transformer.parts import Parts, alternating, paper_parts
from .transformer.syntactic import SyntacticEncoderModel

__all__ = [
    "DCGAN_BLOCKS",
    "LSTMN",
    "NTM",
    "RESIDUAL_BLOCKS",
    "SNAIL",
    "Bahdanau",
    "Captioner",
    "FeedForwardAttention",
    "FewShotSNAIL",
    "FixedDictionary",
    "HierarchicalAttention",
    "LSTMLanguageModel",
    "Luong",
    "MemoryNetwork",
    "Parts",
    "PictureDiscriminator",
    "PictureGenerator",
    "PictureEmbedding",
    "PicturePair",
    "PointerNetwork",
    "Prototypes",
    "ResidualInstead",
    "Seq2Seq",
    "SyntacticEncoderModel",
    "Transformer",
    "TransformerEncoderModel",
    "TransformerLM",
    "alternating",
    "attention_scales",
    "dcgan_pair",
    "paper_parts",
    "sagan_pair",
]
