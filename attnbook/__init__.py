"""attnbook: attention mechanisms, each in one place, each tested. The library of the book "Attention, Cell by Cell"."""

__version__ = "0.1.0"

__all__ = ["__version__", "setup"]

# Exports of attnbook.mechanisms (attend, the scores, the masks) and attnbook.models go here.


def __getattr__(name):
    # setup needs matplotlib and IPython, the mechanisms do not: a plain `import attnbook` stays light.
    if name == "setup":
        from .notebook import setup

        return setup
    raise AttributeError(f"module 'attnbook' has no attribute {name!r}")
