"""Known wrong answers: for every exercise what readers get wrong, with words that the check must say about it."""

from . import (
    alignment_for_free,
    alignment_model,
    beyond_the_bottleneck,
    block,
    cached_decoding,
    copying,
    cost,
    decoding,
    documents_and_memory,
    encoder_decoder,
    five_tasks,
    full_model,
    general_layer,
    global_and_local,
    gradients,
    hulls,
    long_sources,
    memory,
    multi_head,
    pointing,
    positions,
    reading_heads,
    scaled_dot_product,
    scores,
    self_attention,
    soft_and_hard,
    soft_lookup,
    summarisation,
    tours,
    training,
    translation,
    weights_as_explanation,
)
from .collection import WRONG

__all__ = ["WRONG"]
