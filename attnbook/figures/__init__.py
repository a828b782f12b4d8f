"""Figures from plain arrays, drawn or to touch: nothing here knows a model."""

from ..extras import extra

with extra("book", "drawing"):
    from .diagrams.addressing import *  # noqa: F403
    from .diagrams.encoder_decoder import *  # noqa: F403
    from .diagrams.receptive_field import *  # noqa: F403
    from .diagrams.transformer_blocks import *  # noqa: F403
    from .episodes import *  # noqa: F403
    from .interactive.attention import *  # noqa: F403
    from .interactive.decoding import *  # noqa: F403
    from .interactive.figure import *  # noqa: F403
    from .interactive.heads import *  # noqa: F403
    from .interactive.memory import *  # noqa: F403
    from .legends import *  # noqa: F403
    from .line_plots import *  # noqa: F403
    from .plane import *  # noqa: F403
    from .styling import *  # noqa: F403
    from .weights.alignment import *  # noqa: F403
    from .weights.captioned_pictures import *  # noqa: F403
    from .weights.documents import *  # noqa: F403
    from .weights.heads import *  # noqa: F403
    from .weights.staircase import *  # noqa: F403
    from .weights.trees import *  # noqa: F403
