"""attnbook: attention mechanisms, each in one place, each tested.

The library of the book "Attention, Cell by Cell".
"""

from typing import TYPE_CHECKING

from . import decoding, mechanisms, models
from .decoding import *  # noqa: F403
from .kernels.double_backward import double_backward
from .mechanisms import *  # noqa: F403
from .models import *  # noqa: F403
from .version import __version__

if TYPE_CHECKING:
    from .notebook import setup
    from .pretrained import *  # noqa: F403

_FILES = ["Tokenizer", "load_decoder", "load_lora", "load_tokenizer", "save_decoder", "save_lora"]

__all__ = ["__version__", "double_backward", "setup"]
__all__ += decoding.__all__
__all__ += _FILES
__all__ += mechanisms.__all__
__all__ += models.__all__


def __dir__():
    return sorted({*globals(), *__all__})


def __getattr__(name):
    # setup needs matplotlib and IPython, the decoders' files safetensors; the mechanisms need
    # neither: a plain `import attnbook` stays light.
    if name == "setup":
        from .notebook import setup

        return setup
    if name in _FILES:
        from . import pretrained

        return getattr(pretrained, name)
    raise AttributeError(f"module 'attnbook' has no attribute {name!r}")
