"""The exercises' checks: one function an exercise, used by the reader, by the tests and by the
grader.

>>> from attnbook.checks import check
>>> check("00.weighted_sum", weighted_sum)

A check draws its inputs from a seed, calls the answer, and compares with an oracle written here in
NumPy. It knows no mechanism and no model of the library: an answer is never compared with the code
that the book prints."""

from .registry import Exercise, check, exercise, exercises, find, grade, judge
from .verdict import Mistake, NotPassed, Verdict

# The order of the book.
from .ch00_attention import soft_lookup, weights_as_explanation  # noqa: E402,F401
from .ch01_seq2seq import encoder_decoder, decoding, long_sources, gradients  # noqa: E402,F401
from .ch02_bahdanau import alignment_model, alignment_for_free, beyond_the_bottleneck, translation  # noqa: E402,F401
from .ch03_attention_family import (
    scores,
    global_and_local,
    self_attention,
    soft_and_hard,
    general_layer,
    documents_and_memory,
)  # noqa: E402,F401
from .ch04_neural_turing_machines import memory, copying, five_tasks  # noqa: E402,F401
from .ch05_pointer_networks import pointing  # noqa: E402,F401
from .ch05_pointer_networks import hulls  # noqa: E402,F401
from .ch05_pointer_networks import tours  # noqa: E402,F401
from .ch06_transformer import scaled_dot_product  # noqa: E402,F401
from .ch06_transformer import multi_head  # noqa: E402,F401
from .ch06_transformer import positions  # noqa: E402,F401
from .ch06_transformer import block  # noqa: E402,F401
from .ch06_transformer import full_model  # noqa: E402,F401
from .ch06_transformer import training  # noqa: E402,F401
from .ch06_transformer import cached_decoding  # noqa: E402,F401
from .ch06_transformer import reading_heads  # noqa: E402,F401
from .ch06_transformer import one_stack  # noqa: E402,F401
from .ch06_transformer import summarisation  # noqa: E402,F401
from .ch06_transformer import cost  # noqa: E402,F401
from .ch06_transformer import modifications  # noqa: E402,F401
from .ch07_snail import looking_back  # noqa: E402,F401
from .ch07_snail import few_shot  # noqa: E402,F401
from .ch07_snail import bandits  # noqa: E402,F401
from .ch07_snail import decision_processes  # noqa: E402,F401
from .ch08_sagan import attention_in_pictures  # noqa: E402,F401
from .ch08_sagan import steady_training  # noqa: E402,F401
from .ch08_sagan import scores_for_samples  # noqa: E402,F401
from .ch08_sagan import far_parts  # noqa: E402,F401

__all__ = [
    "Exercise",
    "Mistake",
    "NotPassed",
    "Verdict",
    "check",
    "exercise",
    "exercises",
    "find",
    "grade",
    "judge",
]
