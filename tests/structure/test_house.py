"""How large the code may be, and how many calls and files stand on the way of a query:
contributing/house.md says what for, `tools/count_code.py` counts.
"""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def count():
    spec = importlib.util.spec_from_file_location("count_code", ROOT / "tools/count_code.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def rows(table):
    return {row[0]: row[1:] for row in table.rows}


def test_lines(count):
    counted = rows(count.lines(ROOT)[0])
    assert counted["= the library"][0] <= 34_800
    assert counted["= tests and the grader's"][0] <= 69_500


def test_a_folder_is_seen_at_a_glance_and_a_model_read_in_one_go(count):
    folders, models = count.folders(ROOT)
    code = ("attnbook", "grader/attnbook_grader", "bookbuild")
    assert [row for row in folders.rows if row[0].startswith(code)] == [] == models.rows


def test_calls_on_the_way_of_a_query(count):
    counted = rows(count.calls(ROOT)[0])
    for what, most, validation in (("MultiHeadAttention", 45, 12), ("attend", 35, 14)):
        total, checks, private = counted[what][:3]
        assert total <= most and checks <= private <= validation, what


def test_files_that_a_reader_opens(count):
    counted = rows(count.files(ROOT)[0])
    for system, most, outside in (
        ("MultiHeadAttention", 12, 5),
        ("Transformer", 21, 14),
        ("TransformerLM", 21, 14),
    ):
        opened, not_engine = counted[system][:2]
        assert opened <= most and not_engine <= outside, system


def test_no_oracle_of_an_exercise_needs_a_manual(count):
    number, _, _, wide = count.exercises(ROOT)[0].rows[0]
    assert number > 250 and wide == 0
