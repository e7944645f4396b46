"""Globs over repository paths."""

import re
import string

import pathspec
import pytest
from hypothesis import given, strategies as st

from evalgate.config import places


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
    assert places.matches(path, [pattern]) is expected


def test_a_later_pattern_takes_out_again():
    assert not places.matches("evals/old.test.json", ["evals/*", "!evals/old.test.json"])
    assert not places.matches("a", [])


def test_what_is_no_pattern_matches_nothing_and_hurts_nobody():
    assert not places.matches("a", ["?\\"])
    assert places.matches("a", ["?\\", "a"])
    assert places.matches("a", ["[z-a]", "a"])  # a range that ends before it begins


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        # a set holds no slash, as in git
        ("a/b", "a[!x]b", False),
        ("a-b", "a[!x]b", True),
        ("ab/c", "*[!x]*c", False),
        ("abc", "*[!x]*c", True),
        ("a*c", "a[*]c", True),
        ("a]c", "a[]]*c", True),
        ("ax*c", "a*\\*c", True),
        ("axc", "a*\\*c", False),
    ],
)
def test_sets_and_escapes(path, pattern, expected):
    assert places.matches(path, [pattern]) is expected


NAMES = st.text(alphabet="ab", min_size=1, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)
PARTS = st.one_of(st.just("**"), st.text(alphabet="ab*?", min_size=1, max_size=6))
PATTERNS = st.builds(
    lambda before, parts, after: f"{before}{'/'.join(parts)}{after}",
    st.sampled_from(["", "!", "/", "**/", "!/"]),
    st.lists(PARTS, min_size=1, max_size=6),
    st.sampled_from(["", "/", "/**"]),
)


@given(st.lists(PATTERNS, min_size=1, max_size=4), PATHS, st.booleans())
def test_stars_mean_what_they_mean_to_git(patterns, path, is_folder):
    name = f"{path}/" if is_folder else path
    plain = pathspec.GitIgnoreSpec.from_lines(patterns, backend="simple")
    assert (
        places.compiled(tuple(patterns)).check_file(name).include is plain.check_file(name).include
    )


@given(
    st.one_of(
        PATTERNS,
        st.text(alphabet=string.printable, max_size=40),
        st.text(alphabet="a*?[]!^-/\\", max_size=40),
    )
)
def test_no_pattern_leaves_a_choice(pattern):
    """Of any number of stars, one in each name and one `**` may still take more or less when what
    follows fails."""
    for line in places.compiled((pattern,)).patterns:
        regex = re.sub(
            r"\(\?:\.\+/\)\?|\(\?:\(\?P<ps_d>/\)\|\$\)",
            "",
            line.regex.pattern if line.regex else "",
        )
        regex = re.sub(r"\\.", "x", regex, flags=re.DOTALL).replace("[^/]", "\0")
        regex = re.sub(r"\(\?!/\)\[\^?\]?[^\]]*\]", "x", regex)
        while "(?>" in regex:
            regex, found = re.subn(r"\(\?>(?:[^()]|\([^()]*\))*\)", "x", regex)
            assert found
        assert regex.count("(?:/.+)?") <= 1
        assert all(name.count("\0*") <= 1 for name in regex.replace("(?:/.+)?", "").split("/"))


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("a" * 240, "*a" * 12 + "b"),
        ("a" * 240, "a?*" * 60 + "b"),
        ("a" * 240, "*" * 200 + "b"),
        ("a/" * 1000 + "x", "a/**/" * 12 + "b"),
        (("a" * 240 + "/") * 12 + "x", "**/" + ("*a" * 60 + "b/**/") * 12 + "b"),
    ],
)
def test_many_stars_come_to_an_end(path, pattern):
    assert not places.matches(path, [pattern])
