"""Globs over repository paths."""

import pytest

from evalgate.project import globs


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("evals/a.evalset.json", "**", True),
        ("evals/a.evalset.json", "evals/*.evalset.json", True),
        ("evals/deep/a.evalset.json", "evals/*.evalset.json", False),
        ("evals/deep/a.evalset.json", "evals/**/*.evalset.json", True),
        ("evals/a.evalset.json", "evals/**/*.evalset.json", True),
        ("evals/a.evalset.json", "*.evalset.json", True),
        ("evals/a.evalset.json", "evals/", True),
        ("other/a.evalset.json", "evals/", False),
    ],
)
def test_a_glob(path, pattern, expected):
    assert globs.matches(path, [pattern]) is expected


def test_a_later_pattern_takes_out_again():
    assert not globs.matches("evals/old.test.json", ["evals/*", "!evals/old.test.json"])
    assert not globs.matches("a", [])


def test_what_is_no_pattern_matches_nothing_and_hurts_nobody():
    assert not globs.matches("a", ["?\\"])
    assert globs.matches("a", ["?\\", "a"])
