"""Known wrong answers: for every exercise what readers get wrong, with words that the check must
say about it.
"""

from .ch00_attention import soft_lookup, weights_as_explanation
from .ch01_seq2seq import decoding, encoder_decoder, gradients, long_sources
from .ch02_bahdanau import alignment_for_free, alignment_model, beyond_the_bottleneck, translation
from .ch03_attention_family import (
    documents_and_memory,
    general_layer,
    global_and_local,
    scores,
    self_attention,
    soft_and_hard,
)
from .ch04_neural_turing_machines import copying, five_tasks, memory
from .ch05_pointer_networks import hulls, pointing, tours
from .ch06_transformer import (
    block,
    cached_decoding,
    cost,
    full_model,
    modifications,
    multi_head,
    one_stack,
    positions,
    reading_heads,
    scaled_dot_product,
    summarisation,
    training,
)
from .ch07_snail import bandits, decision_processes, few_shot, looking_back
from .ch08_sagan import attention_in_pictures, far_parts, scores_for_samples, steady_training
from .collection import WRONG

__all__ = ["WRONG"]
