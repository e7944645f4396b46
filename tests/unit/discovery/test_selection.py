"""What the user asked for: paths, folders, globs, case ids, search texts."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evalgate.discovery import discover
from evalgate.discovery.discover import Files, Selection
from evalgate.errors import ConfigError, Problem
from evalgate.model import EvalSet
from evalgate.system import patterns

FOUND = (
    "evals/a.evalset.json",
    "evals/b.evalset.json",
    "evals/deep/c.test.json",
    "odd:name.evalset.json",
)
OTHERS = {"notes/odd.json"}
FOLDERS = {".", "evals", "evals/deep", "empty"}


class Listed(Files):
    def is_file(self, path: str) -> bool:
        return path in {*FOUND, *OTHERS}

    def is_folder(self, path: str) -> bool:
        return path in FOLDERS

    def is_outside(self, path: str) -> bool:
        return path.startswith(("..", "/"))


FILES = Listed(Path(), FOUND)


@pytest.mark.parametrize(
    ("text", "keys", "case_ids"),
    [
        ("evals/a.evalset.json", FOUND[:1], ()),
        ("./evals//a.evalset.json", FOUND[:1], ()),
        ("evals/../evals/a.evalset.json", FOUND[:1], ()),
        ("evals", FOUND[:3], ()),
        ("evals/", FOUND[:3], ()),
        (".", FOUND, ()),
        ("evals/*.evalset.json", FOUND[:2], ()),
        ("evals/**/*.json", FOUND[:3], ()),
        ("*.test.json", FOUND[2:3], ()),
        ("notes/odd.json", ("notes/odd.json",), ()),  # a name that no walk looks for
        ("evals/a.evalset.json:one", FOUND[:1], ("one",)),
        ("evals/a.evalset.json:one, two,", FOUND[:1], ("one", "two")),
        # the path decides where to split
        ("evals/a.evalset.json:with:colon", FOUND[:1], ("with:colon",)),
        ("odd:name.evalset.json", FOUND[3:], ()),
        ("odd:name.evalset.json:one", FOUND[3:], ("one",)),
        ("evals/*.evalset.json:one", FOUND[:2], ("one",)),
        ("evals:one", FOUND[:3], ("one",)),
    ],
)
def test_a_selection(text, keys, case_ids):
    parsed = discover.parse_selection(text, files=FILES)
    assert isinstance(parsed, Selection)
    assert (parsed.keys, parsed.case_ids) == (keys, case_ids)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "evals/a.evalset.jsn",
            "matches no evaluation file",
            "Did you mean `evals/a.evalset.json`?",
        ),
        ("c.test.json", "matches no evaluation file", "Did you mean `evals/deep/c.test.json`?"),
        ("evals/d.evalset.json:one", "matches no evaluation file", "Did you mean `evals/"),
        ("empty", "holds no evaluation file", "Found 4 evaluation files"),
        ("zzz", "matches no evaluation file", "Found 4 evaluation files"),
        ("q*", "matches no evaluation file", "Found 4"),
        ("", "matches no evaluation file", "Is a variable not set"),
        (
            "evals/a.evalset.json:",
            "matches no evaluation file",
            "Did you mean `evals/a.evalset.json`?",
        ),
    ],
)
def test_a_selection_that_matches_nothing_names_the_nearest(text, message, hint):
    problem = discover.parse_selection(text, files=FILES)
    assert isinstance(problem, Problem)
    assert message in problem.message
    assert problem.hint.startswith(hint)


@given(st.text(alphabet="ab:/*?[]!#., \\", max_size=20))
def test_no_selection_makes_it_fail(text):
    found = discover.parse_selection(text, files=FILES)
    assert isinstance(found, Problem) or set(found.keys) <= {*FOUND, *OTHERS}
    assert set(discover.unsearched_folders([text], files=FILES)) <= FOLDERS


def test_folders_in_which_the_walk_found_nothing():
    assert discover.unsearched_folders(["empty", "evals", "empty:one", "nowhere"], files=FILES) == [
        "empty"
    ]


@pytest.fixture
def sets(case):
    def make(*ids):
        return EvalSet(
            eval_set_id="x", cases=tuple(case(each, f"tell me of {each}") for each in ids)
        )

    return {"x": make("one", "two"), "y": make("two", "three"), "spaced": make(" one")}


def ids(picked):
    return {key: [case.case_id for case in each.cases] for key, each in picked.items()}


@pytest.mark.parametrize(
    ("selections", "expected"),
    [
        ([(("x",), ())], {"x": ["one", "two"]}),
        ([(("x",), ("two",))], {"x": ["two"]}),
        ([(("x", "y"), ("two",))], {"x": ["two"], "y": ["two"]}),
        ([(("x", "y"), ("one",))], {"x": ["one"]}),  # a set of which nothing is left is dropped
        ([(("x",), ("one",)), (("x",), ("two",))], {"x": ["one", "two"]}),
        # the whole file wins, whatever the order
        ([(("x",), ("one",)), (("x",), ())], {"x": ["one", "two"]}),
        ([(("x",), ()), (("x",), ("one",))], {"x": ["one", "two"]}),
        ([(("z",), ())], {}),  # a file that could not be read
        ([(("spaced",), ("one",))], {"spaced": [" one"]}),  # a selection has no spaces at the ends
    ],
)
def test_cases_are_picked(sets, selections, expected):
    made = [Selection(text="", keys=keys, case_ids=case_ids) for keys, case_ids in selections]
    picked, problems = discover.pick_cases(sets, made)
    assert ids(picked) == expected
    assert problems == ()


def test_a_case_that_no_file_of_its_selection_has_is_told(sets):
    made = Selection(text="x:tow,one", keys=("x",), case_ids=("tow", "one"))
    picked, (problem,) = discover.pick_cases(sets, [made])
    assert ids(picked) == {"x": ["one"]}
    assert (problem.code, problem.hint) == ("unknown-case", "Did you mean `two`?")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("two", {"x": ["two"], "y": ["two"]}),
        ("ONE", {"x": ["one"], "spaced": [" one"]}),  # case is ignored
        ("^th", {"y": ["three"]}),
        # what the user says first
        ("tell me", {"x": ["one", "two"], "y": ["two", "three"], "spaced": [" one"]}),
        ("nothing", {}),
    ],
)
def test_searching(sets, pattern, expected):
    assert ids(discover.find_cases(sets, pattern)) == expected


def test_what_is_no_regular_expression_is_an_error(sets):
    with pytest.raises(ConfigError, match=r"^`grep`: '\(' is not a regular expression: missing"):
        discover.find_cases(sets, "(")


def test_a_search_without_an_end_is_an_error(sets, monkeypatch):
    monkeypatch.setattr(patterns, "LONGEST_SEARCH_S", 0.2)
    with pytest.raises(
        ConfigError, match=r"^`grep`: the search for the pattern '\(\(\.\|\.\)\*\)\*x\$'"
    ):
        discover.find_cases(sets, "((.|.)*)*x$")
