"""The version of the library: the one place where it stands."""

__version__ = "0.1.0"
