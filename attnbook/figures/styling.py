"""The style of all figures: opaque and light, so that they read on a light and on a dark page."""

import matplotlib as mpl
from matplotlib.rcsetup import cycler

__all__ = ["CMAP", "COLORS", "LINES", "style"]

COLORS = ("#0b5fa5", "#c2410c", "#3f7d20", "#7a3e9d", "#8a6d00", "#00796b")
"""Blue, orange, green, violet, ochre, teal: dark enough for lines on the background below, and
distinct for colour-blind readers.
"""

LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Line styles that go with :data:`COLORS`, so that colour is never the only difference."""

CMAP = "Blues"
"""Colours of weights between 0 and 1."""


def style() -> None:
    """Set Matplotlib's defaults; called by ``attnbook.setup``."""
    mpl.rcParams.update(
        {
            "figure.facecolor": "#fbfbf8",
            "axes.facecolor": "#fbfbf8",
            "savefig.facecolor": "#fbfbf8",
            "figure.figsize": (6.4, 3.4),
            "figure.dpi": 110,
            "savefig.dpi": 110,
            "font.size": 10.5,
            "axes.titlesize": 11,
            "axes.labelsize": 10.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=COLORS) + cycler(linestyle=LINES),
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "attnbook",
        }
    )
