"""The exercises' checks: one function an exercise, used by the reader, by the tests and by the grader.

>>> from attnbook.checks import check
>>> check("00.weighted_sum", weighted_sum)

A check draws its inputs from a seed, calls the answer, and compares with an oracle written here in NumPy. It knows no
mechanism and no model of the library: an answer is never compared with the code that the book prints.
"""

from .registry import Exercise, check, exercise, exercises, find, grade, judge
from .verdict import Mistake, NotPassed, Verdict

# The order of the book.
from . import soft_lookup, weights_as_explanation  # noqa: E402,F401
from . import encoder_decoder, decoding, long_sources, gradients  # noqa: E402,F401
from . import alignment_model, alignment_for_free, beyond_the_bottleneck, translation  # noqa: E402,F401
from . import scores, global_and_local, self_attention, soft_and_hard, general_layer, documents_and_memory  # noqa: E402,F401
from . import memory, copying, five_tasks  # noqa: E402,F401
from . import pointing  # noqa: E402,F401
from . import hulls  # noqa: E402,F401
from . import tours  # noqa: E402,F401
from . import scaled_dot_product  # noqa: E402,F401
from . import multi_head  # noqa: E402,F401
from . import positions  # noqa: E402,F401
from . import block  # noqa: E402,F401
from . import full_model  # noqa: E402,F401
from . import training  # noqa: E402,F401
from . import cached_decoding  # noqa: E402,F401
from . import reading_heads  # noqa: E402,F401
from . import one_stack  # noqa: E402,F401
from . import summarisation  # noqa: E402,F401
from . import cost  # noqa: E402,F401
from . import modifications  # noqa: E402,F401
from . import looking_back  # noqa: E402,F401
from . import few_shot  # noqa: E402,F401
from . import bandits  # noqa: E402,F401
from . import decision_processes  # noqa: E402,F401
from . import attention_in_pictures  # noqa: E402,F401
from . import steady_training  # noqa: E402,F401
from . import scores_for_samples  # noqa: E402,F401
from . import far_parts  # noqa: E402,F401

__all__ = ["Exercise", "Mistake", "NotPassed", "Verdict", "check", "exercise", "exercises", "find", "grade", "judge"]
