import pytest
from matplotlib import pyplot as plt

from attnbook import figures


@pytest.fixture(autouse=True)
def styled():
    """Every figure is drawn in the style of the book, and closed."""
    figures.style()
    yield
    plt.close("all")
