"""No regular expression takes more than linear time, whatever text it meets: each one tried with
texts pumped up."""

from __future__ import annotations

import ast
import functools
import itertools
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from re import (
    _constants as sre,  # type: ignore[attr-defined]
    _parser as sre_parser,  # type: ignore[attr-defined]
)
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2] / "evalgate"
LENGTH = 6_000
SLOW_S = 0.02
"""A linear pattern needs a tenth of it for a text of this length."""

SAMPLES = {
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "x",
    sre.CATEGORY_DIGIT: "7",
    sre.CATEGORY_NOT_DIGIT: "x",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "-",
}
FUNCTIONS = {
    "compile",
    "match",
    "search",
    "fullmatch",
    "sub",
    "split",
    "findall",
    "finditer",
    "subn",
}
CALLED = re.compile(rf"\bre\.(?:{'|'.join(FUNCTIONS)})\(")


FILES = [
    path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.rglob("*.py"))
    if CALLED.search(path.read_text("utf-8"))
]


@functools.cache
def patterns(name: str) -> dict[str, tuple[int, Any, set[str]]]:
    """Every pattern that is written down in this file, by its place: its flags, itself, and what it
    is used for."""
    return {where: found for where, *found in _patterns(ROOT / name)}


def _patterns(path: Path) -> Iterator[tuple[str, int, Any, set[str]]]:
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = node.func.value
        if not (isinstance(of, ast.Name) and of.id == "re" and node.func.attr in FUNCTIONS):
            continue
        written = _constant(node.args[0])
        if written is None:
            continue
        named = [
            ast.unparse(each) for each in (*node.args[1:], *(word.value for word in node.keywords))
        ]
        flags = sum(
            {
                flag
                for name in named
                for flag in re.RegexFlag
                if f"re.{flag.name}" in name.replace("|", " ")
            },
            start=0,
        )
        line = source.splitlines()[node.lineno - 1]
        name = re.match(r"\s*(\w+)(?:: [^=]*)? = re\.compile", line)
        uses = set(re.findall(rf"\b{name[1]}\.(\w+)\(", source)) if name else {node.func.attr}
        yield (
            f"{path.relative_to(ROOT)}:{node.lineno}",
            int(flags),
            written,
            uses if uses and uses <= ONCE else {"finditer", *(uses & ONCE)},
        )


ONCE = {"match", "fullmatch"}
"""These try a pattern at one place, the others at each."""


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.JoinedStr):  # what stands in braces is a word
        return "".join(
            str(each.value) if isinstance(each, ast.Constant) else "word" for each in node.values
        )
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, str | bytes) else None


def example(parsed: Any) -> str:
    """A short text that a parsed pattern matches, as far as that is easy to tell."""
    made = ""
    for op, given in parsed:
        if op is sre.LITERAL:
            made += chr(given)
        elif op is sre.NOT_LITERAL:
            made += "x" if given != ord("x") else "y"
        elif op is sre.ANY:
            made += "x"
        elif op is sre.IN:
            made += of_set(given)[0]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            made += example(given[2]) * max(1, given[0])
        elif op is sre.SUBPATTERN:
            made += example(given[-1])
        elif op is sre.ATOMIC_GROUP:
            made += example(given)
        elif op is sre.BRANCH:
            made += example(given[1][0])
    return made


def of_set(items: Any) -> list[str]:
    """Characters of a set."""
    if items and items[0][0] is sre.NEGATE:
        refused = {each for op, given in items[1:] for each in _of_item(op, given)}
        return [each for each in "x -7.a\n\t\"'" if each not in refused][:3] or ["\u00fc"]
    return list(dict.fromkeys(each for op, given in items for each in _of_item(op, given)))[:4]


def _of_item(op: Any, given: Any) -> list[str]:
    if op is sre.LITERAL:
        return [chr(given)]
    if op is sre.RANGE:
        return [chr(given[0]), chr(min(given[0] + 1, given[1]))]
    return [SAMPLES.get(given, "x")]


def atoms(parsed: Any) -> Iterator[str]:
    """What can be repeated: a character of each set, each literal, the example of each group."""
    for op, given in parsed:
        if op is sre.LITERAL:
            yield chr(given)
        elif op is sre.IN:
            yield from of_set(given)
        elif op in (sre.ANY, sre.NOT_LITERAL):
            yield "x"
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield example(given[2])
            yield from atoms(given[2])
        elif op in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            inner = given[-1] if op is sre.SUBPATTERN else given
            yield example(inner)
            yield from atoms(inner)
        elif op is sre.BRANCH:
            for branch in given[1]:
                yield example(branch)
                yield from atoms(branch)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from atoms(given[1])


def texts(parsed: Any, dice: random.Random) -> Iterator[str]:
    """Texts pumped up: a beginning that matches, something often, an end that does not match."""
    starts = list(dict.fromkeys(example(parsed[:place]) for place in range(len(parsed) + 1)))
    single = [each for each in dict.fromkeys([*atoms(parsed), example(parsed), " ", "> "]) if each]
    pairs = [one + other for one, other in itertools.permutations(single, 2)]
    for start in dict.fromkeys(["", *dice.sample(starts, min(3, len(starts))), starts[-1]]):
        for atom in [*single, *dice.sample(pairs, min(12, len(pairs)))]:
            for end in ("", "\0"):
                yield start + atom * (LENGTH // len(atom)) + end


BOUNDED = {
    "config/places.py": "_PIECE meets text that ends in `]`",
    "judges/base.py": "10,000 characters of an error page",
}
"""Files with a pattern that is not linear, and why no text can show it."""


def test_they_are_found() -> None:
    assert sum(len(patterns(name)) for name in FILES) > 80


def seconds(found: Any, uses: set[str], text: Any) -> float:
    began = time.thread_time()
    for use in uses:
        said = getattr(found, use)(text)
        if use == "finditer":
            for _ in said:
                pass
    return time.thread_time() - began


@pytest.mark.parametrize("name", [name for name in FILES if name not in BOUNDED])
def test_a_pattern_is_linear(name: str) -> None:
    for where, (flags, pattern, uses) in patterns(name).items():
        found = re.compile(pattern, flags)
        parsed = sre_parser.parse(pattern, flags)
        for text in dict.fromkeys(texts(parsed, random.Random(1))):
            shown = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
            if seconds(found, uses, shown) > SLOW_S:
                half = min(seconds(found, uses, shown[: len(shown) // 2]) for _ in range(3))
                whole = min(seconds(found, uses, shown) for _ in range(3))
                assert whole < SLOW_S or whole < 3 * half, (
                    f"{where}: {pattern!r} on {text[:20]!r}...{text[-5:]!r}: {whole:.3f} s"
                )
