"""Whole systems, one file each."""

from .bahdanau import Bahdanau
from .captioner import Captioner
from .feed_forward_attention import FeedForwardAttention
from .few_shot import FewShotSNAIL, PictureEmbedding, Prototypes
from .hierarchical import HierarchicalAttention
from .language import LSTMLanguageModel
from .lstmn import LSTMN
from .luong import Luong
from .memory_network import MemoryNetwork
from .ntm import NTM
from .pointer import PointerNetwork
from .pointer_baselines import FixedDictionary
from .sagan import PictureDiscriminator, PictureGenerator, PicturePair, attention_scales, dcgan_pair, sagan_pair
from .sagan_blocks import DCGAN_BLOCKS, RESIDUAL_BLOCKS, ResidualInstead
from .seq2seq import Seq2Seq
from .snail import SNAIL
from .transformer import Transformer
from .transformer_language import TransformerEncoderModel, TransformerLM
from .transformer_parts import Parts, alternating, paper_parts
from .transformer_syntactic import SyntacticEncoderModel

__all__ = ["DCGAN_BLOCKS", "LSTMN", "NTM", "RESIDUAL_BLOCKS", "SNAIL", "Bahdanau", "Captioner", "FeedForwardAttention",
           "FewShotSNAIL", "FixedDictionary", "HierarchicalAttention", "LSTMLanguageModel", "Luong", "MemoryNetwork", "Parts",
           "PictureDiscriminator", "PictureGenerator", "PictureEmbedding", "PicturePair", "PointerNetwork", "Prototypes", "ResidualInstead", "Seq2Seq",
           "SyntacticEncoderModel", "Transformer", "TransformerEncoderModel", "TransformerLM", "alternating",
           "attention_scales", "dcgan_pair", "paper_parts", "sagan_pair"]
