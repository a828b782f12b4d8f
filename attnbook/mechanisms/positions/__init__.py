"""Positional encodings: absolute, relative, rotary, as a bias, in a dependency tree."""

from . import absolute, alibi, relative, rotary, syntactic
from .absolute import *  # noqa: F403
from .alibi import *  # noqa: F403
from .relative import *  # noqa: F403
from .rotary import *  # noqa: F403
from .rotary_scaling import NTK, DynamicNTK, Interpolation, Llama3, LongRoPE, YaRN
from .syntactic import *  # noqa: F403

__all__ = ["DynamicNTK", "Interpolation", "Llama3", "LongRoPE", "NTK", "YaRN"]
__all__ += absolute.__all__
__all__ += alibi.__all__
__all__ += relative.__all__
__all__ += rotary.__all__
__all__ += syntactic.__all__
