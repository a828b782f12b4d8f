"""SNAIL: the network, few-shot classification and agents."""

from .few_shot import FewShotSNAIL, PictureEmbedding, Prototypes
from .network import SNAIL

__all__ = ["FewShotSNAIL", "PictureEmbedding", "Prototypes", "SNAIL"]
