"""The list of categories: every name resolves, every source is in the bibliography."""

import importlib
import re
from pathlib import Path

import pytest

from attnbook.mechanisms.attention.categories import CATEGORIES, Category

BIB = (Path(__file__).resolve().parents[3] / "references.bib").read_text(encoding="utf-8")


def faults(category: Category) -> list[str]:
    message = []
    for name in category.names:
        module, _, attribute = name.rpartition(".")
        try:
            result = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError):
            message.append(f"{name} does not exist")
            continue
        own = (result.__module__, result.__name__) == (module, attribute)
        if not (callable(result) and result.__doc__ and own):
            message.append(f"{name} is not a documented class or function of that module")
    message += [
        f"{source} is not in the bibliography"
        for source in category.sources
        if not re.search(rf"^@\w+{{{re.escape(source)},", BIB, flags=re.MULTILINE)
    ]
    if not category.names or not category.sources or len(category.definition) < 40:
        message.append("an entry needs names, sources and a definition")
    return message


def test_the_list_holds_the_three_kinds_of_the_literature():
    assert list(CATEGORIES) == ["self-attention", "global / soft", "local / hard"]


@pytest.mark.parametrize("name", CATEGORIES)
def test_every_entry_points_at_something(name):
    assert CATEGORIES[name].name == name and faults(CATEGORIES[name]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("attnbook.mechanisms.attention.multi_head.Absent",)}, "does not exist"),
        ({"names": ("attnbook.absent.Thing",)}, "does not exist"),
        ({"names": ("attnbook.models.rnn.luong.MultiHeadAttention",)}, "does not exist"),
        ({"names": ("attnbook.mechanisms.attention.multi_head.Attended",)}, "of that module"),
        ({"names": ()}, "needs names"),
        ({"sources": ("absent1999",)}, "not in the bibliography"),
        ({"definition": "soft"}, "needs names"),
    ],
)
def test_a_planted_fault_is_seen(change, message):
    result = faults(CATEGORIES["self-attention"]._replace(**change))
    assert len(result) == 1 and message in result[0]
