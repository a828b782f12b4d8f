"""Show, attend and tell: an LSTM that describes a picture, its kinds of attention, its losses."""

from .losses import *  # noqa: F403
from .network import *  # noqa: F403
