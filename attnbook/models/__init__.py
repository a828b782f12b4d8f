"""Whole systems, one file each."""

from . import documents, gan, pointer, rnn, snail, transformer, vision
from .captioner import Captioner
from .documents import *  # noqa: F403
from .gan import *  # noqa: F403
from .ntm import NTM
from .pointer import *  # noqa: F403
from .rnn import *  # noqa: F403
from .snail import *  # noqa: F403
from .transformer import *  # noqa: F403
from .vision import *  # noqa: F403

__all__ = ["NTM", "Captioner"]
__all__ += documents.__all__
__all__ += gan.__all__
__all__ += pointer.__all__
__all__ += rnn.__all__
__all__ += snail.__all__
__all__ += transformer.__all__
__all__ += vision.__all__
