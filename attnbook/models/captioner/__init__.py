"""Show, attend and tell: an LSTM that describes a picture, with soft, hard or no attention over its
regions, and its losses.
"""

from .losses import *  # noqa: F403
from .network import *  # noqa: F403
