"""Broader kinds of attention, by what attends and to what; the book's table of categories is made
from this list.
"""

from typing import NamedTuple

__all__ = ["CATEGORIES", "Category"]


class Category(NamedTuple):
    """One kind of attention.

    Attributes:
        name: what the literature calls it
        definition: what sets it apart
        sources: keys of ``references.bib``
        names: where the library has it, as dotted names; strings, so that this module knows no
            model
    """

    name: str
    definition: str
    sources: tuple[str, ...]
    names: tuple[str, ...]


_LIST = (
    Category(
        "self-attention",
        "The positions of one sequence look at one another; queries, keys and values all come "
        "from it. "
        "Also called intra-attention.",
        ("cheng2016",),
        (
            "attnbook.mechanisms.attention.multi_head.MultiHeadAttention",
            "attnbook.models.rnn.lstmn.LSTMN",
        ),
    ),
    Category(
        "global / soft",
        "Every part of the input gets a weight, and the context is the weighted sum of all of "
        "them. Differentiable; "
        "the cost grows with the input.",
        ("xu2015", "luong2015"),
        (
            "attnbook.mechanisms.attention.soft_attention.attend",
            "attnbook.models.rnn.bahdanau.Bahdanau",
            "attnbook.models.rnn.luong.Luong",
            "attnbook.models.captioner.network.SoftAttention",
        ),
    ),
    Category(
        "local / hard",
        "Only a part of the input is read: a window of it (local, differentiable inside the "
        "window), or one sampled "
        "place (hard, trained by REINFORCE).",
        ("luong2015", "xu2015"),
        (
            "attnbook.mechanisms.efficient.local.attend_window",
            "attnbook.models.rnn.luong.Luong",
            "attnbook.models.captioner.network.HardAttention",
        ),
    ),
)

CATEGORIES: dict[str, Category] = {category.name: category for category in _LIST}
"""The kinds of attention by name, as in the second table of Weng 2018, section "A Family of
Attention Mechanisms".
"""
