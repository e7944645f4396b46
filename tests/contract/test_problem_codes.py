"""Every problem code that the code can raise is explained in docs/validate.md, and nothing else is."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)+")
TELLERS = {"error", "warn", "note", "warning", "tell", "_error", "_warning", "_note", "_problem"}
"""Functions whose first argument is a code."""


@functools.cache
def raised():
    codes = set()
    for file in (ROOT / "evalgate").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                codes.update(_of_call(node))
            elif isinstance(node, ast.FunctionDef):
                codes.update(_of_default(node))
    return {code for code in codes if CODE.fullmatch(code)}


def _of_call(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    candidates = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    if name in TELLERS and call.args:
        candidates.append(call.args[0])
    if name == "PydanticCustomError":  # becomes a code in formats/json_source.py
        yield call.args[0].value.replace("_", "-")
    for each in candidates:
        yield from (leaf.value for leaf in ast.walk(each) if isinstance(leaf, ast.Constant) and _is_text(leaf))


def _of_default(function):
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if argument.arg == "code" and isinstance(default, ast.Constant) and _is_text(default):
            yield default.value


@functools.cache
def written():
    """Every text in the package that may be a code: some stand in tables and constants before they are raised."""
    files = (ROOT / "evalgate").rglob("*.py")
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    found = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value for value in found if isinstance(value, str) and CODE.fullmatch(value)}


def _is_text(constant):
    return isinstance(constant.value, str)


def documented():
    text = (ROOT / "docs/validate.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {code for cell in first_cells for code in re.findall(r"`([^`]+)`", cell)}


NOTED = {"json-nan", "json-huge"}  # told by name within formats/json_source.py


def test_every_code_is_documented():
    assert raised() - documented() == set()


def test_every_documented_code_can_be_raised():
    assert documented() - raised() - written() - {code.replace("_", "-") for code in NOTED} == set()


def test_the_search_finds_codes_at_all():
    assert {"asserts-nothing", "json-syntax", "no-agent", "unknown-persona", "reference-missing"} <= raised()
