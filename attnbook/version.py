"""The version of the library, and the numbers of its interface: the one place where they stand."""

__version__ = "0.2.0"

INTERFACE = 15
"""What the notebooks may use of the library, as a number: it rises with every change of
`data/interface.csv`, which `tools/make_interface.py` writes."""
OLDEST_INTERFACE = 8
"""The oldest interface that this library still offers: a notebook written for an older one may use
what is gone."""
