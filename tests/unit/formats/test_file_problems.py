"""Places of problems: the line of the value, cheap for large files, and repetitions counted."""

from __future__ import annotations

import json
import time

import pytest

from evalgate.errors import Severity
from evalgate.formats.json_source import ERRORS_SHOWN, Problems, Spot, path_text

TEXT = '{\n  "a": [\n    {"b": 1},\n    {"userContent": "x",\n     "d/e": 2}\n  ]\n}\n'


@pytest.mark.parametrize(
    ("path", "spelling"),
    [
        ((), ""),
        (("a", 0, "b"), "a[0].b"),
        (("odd key", "x"), "['odd key'].x"),
        ((3,), "[3]"),
        (("a", "$x"), "a['$x']"),
    ],
)
def test_paths_as_text(path, spelling):
    assert path_text(path) == spelling


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("a",), 2, 3),
        (("a", 0, "b"), 3, 6),
        # the other spelling is found too
        (("a", 1, "user_content"), 4, 6),
        # what is not there is where its parent is
        (("a", 1, "missing"), 4, 5),
        (("a", 9, "b"), 2, 3),
        ((), 1, 1),
    ],
)
def test_a_path_has_a_place(path, line, column):
    place = Problems(TEXT, file="f").place_of(path)
    assert (place.line, place.column) == (line, column)


def test_a_place_is_looked_for_from_the_nearest_start():
    found = Problems(TEXT, file="f")
    found.starts[("other",)] = 2, TEXT.index('{"user')
    assert (found.place_of(("other",)).line, found.place_of(("other",)).column) == (2, 1)
    assert found.place_of(("other", "userContent")).line == 4
    assert (found.place_of(("b",)).line, found.place_of(("a", 1, "userContent")).line) == (1, 4)


def test_offsets_may_come_in_any_order():
    found = Problems(TEXT, file="f")
    forward = [found.place_at(offset) for offset in range(len(TEXT))]
    backward = [found.place_at(offset) for offset in reversed(range(len(TEXT)))]
    assert forward == backward[::-1]
    naive = [
        (TEXT.count("\n", 0, i) + 1, i - (TEXT.rfind("\n", 0, i) + 1) + 1) for i in range(len(TEXT))
    ]
    assert [(place.line, place.column) for place in forward] == naive


def test_one_endless_line_costs_no_more_than_others():
    text = " " * 20_000_000
    found = Problems(text, file="f")
    began = time.perf_counter()
    # 100,000 places; searching each from the start took minutes
    for offset in range(0, len(text), 200):
        found.place_at(offset)
    assert time.perf_counter() - began < 5


def test_repetitions_are_counted():
    found = Problems("{}", file="f")
    for i in range(50):
        Spot(found, ("eval_cases", i, "x")).warning("odd", "odd thing")
        Spot(found, ("eval_cases", i, "y")).error("bad", "bad thing")
    Spot(found, ("elsewhere",)).warning("odd", "odd thing")
    warnings = [p for p in found.all() if p.severity is Severity.WARNING]
    errors = [p for p in found.all() if p.severity is Severity.ERROR]
    assert [p.message for p in warnings] == ["odd thing (and in 49 more places)", "odd thing"]
    assert len(errors) == ERRORS_SHOWN
    assert errors[-1].message == "bad thing (and in 30 more places)"
    assert found.error_count == 50


def test_problems_come_in_the_order_of_the_file():
    found = Problems(TEXT, file="f")
    Spot(found, ("a", 1)).error("late", "x")
    Spot(found, ("a", 0)).error("early", "x")
    assert [p.code for p in found.all()] == ["early", "late"]


def test_a_huge_file_costs_little_and_still_has_columns():
    text = "\n" + json.dumps({"a": ["x" * 5_000_000], "b": {"c": 1}})
    found = Problems(text, file="f")
    found.starts[()] = 1, 1
    began = time.perf_counter()
    assert found.place_of(("b", "c")).column == text.index('"c"')
    assert time.perf_counter() - began < 5
