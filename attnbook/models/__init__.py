"""Whole systems, one file each."""

from .rnn.bahdanau import Bahdanau
from .captioner import Captioner
from .documents.feed_forward_attention import FeedForwardAttention
from .snail.few_shot import FewShotSNAIL, PictureEmbedding, Prototypes
from .documents.hierarchical import HierarchicalAttention
from .rnn.lstm_language_model import LSTMLanguageModel
from .rnn.lstmn import LSTMN
from .rnn.luong import Luong
from .documents.memory_network import MemoryNetwork
from .ntm import NTM
from .pointer.network import PointerNetwork
from .pointer.fixed_dictionary import FixedDictionary
from .gan.sagan import PictureDiscriminator, PictureGenerator, PicturePair, attention_scales, dcgan_pair, sagan_pair
from .gan.blocks import DCGAN_BLOCKS, RESIDUAL_BLOCKS, ResidualInstead
from .rnn.seq2seq import Seq2Seq
from .snail.network import SNAIL
from .transformer.encoder_decoder import Transformer
from .transformer.language_model import TransformerEncoderModel, TransformerLM
from .transformer.parts import Parts, alternating, paper_parts
from .transformer.syntactic import SyntacticEncoderModel

__all__ = ["DCGAN_BLOCKS", "LSTMN", "NTM", "RESIDUAL_BLOCKS", "SNAIL", "Bahdanau", "Captioner", "FeedForwardAttention",
           "FewShotSNAIL", "FixedDictionary", "HierarchicalAttention", "LSTMLanguageModel", "Luong", "MemoryNetwork", "Parts",
           "PictureDiscriminator", "PictureGenerator", "PictureEmbedding", "PicturePair", "PointerNetwork", "Prototypes", "ResidualInstead", "Seq2Seq",
           "SyntacticEncoderModel", "Transformer", "TransformerEncoderModel", "TransformerLM", "alternating",
           "attention_scales", "dcgan_pair", "paper_parts", "sagan_pair"]
