"""Every problem code that the code can raise is explained in docs/validate.md, and nothing else
is."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)+")
TELLERS = {
    "error",
    "warn",
    "note",
    "warning",
    "tell",
    "report",
    "adk_warning",
    "_error",
    "_warning",
    "_note",
    "_problem",
}
"""Functions whose first argument is a code."""
EXCEPTIONS = {"LabelProblem"}
"""Exceptions whose first argument is one."""


@functools.cache
def raised():
    codes = set()
    for file in (ROOT / "evalgate").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                codes.update(_of_call(node, constants))
            elif isinstance(node, ast.FunctionDef):
                codes.update(_of_default(node))
                codes.update(_of_return(node, constants))
    return {code for code in codes if CODE.fullmatch(code)}


def _constants(tree):
    """The texts that a module names once: `A = "x"` and `A, B = "x", "y"`."""
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.Assign)):
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = zip(target.elts, value.elts, strict=True) if several else [(target, value)]
        found |= {
            name.id: text.value
            for name, text in pairs
            if isinstance(name, ast.Name) and _is_text(text)
        }
    return found


def _of_call(call, constants):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    candidates = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    if name in TELLERS | EXCEPTIONS and call.args:
        candidates.append(call.args[0])
    if name == "PydanticCustomError":  # becomes a code in formats/json_source.py
        yield call.args[0].value.replace("_", "-")
    for each in candidates:
        yield from (leaf.value for leaf in ast.walk(each) if _is_text(leaf))
        if isinstance(each, ast.Name) and each.id in constants:
            yield constants[each.id]


def _of_default(function):
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if argument.arg == "code" and _is_text(default):
            yield default.value


def _of_return(function, constants):
    """A function that tells a problem as a code and its words, or several."""
    returns = "" if function.returns is None else ast.unparse(function.returns)
    if not returns.startswith(("tuple[str, str", "Iterator[tuple[str, str")):
        return
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield):
            told = (
                (node.value.body, node.value.orelse)
                if isinstance(node.value, ast.IfExp)
                else (node.value,)
            )
            codes = (each.elts[0] for each in told if isinstance(each, ast.Tuple))
            for code in codes:
                if _is_text(code):
                    yield code.value
                elif isinstance(code, ast.Name) and code.id in constants:
                    yield constants[code.id]


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def documented():
    text = (ROOT / "docs/validate.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {code for cell in first_cells for code in re.findall(r"`([^`]+)`", cell)}


NOTED = {"json-nan", "json-huge"}  # told by name within formats/json_source.py


def test_every_code_is_documented():
    assert raised() - documented() == set()


def test_every_documented_code_can_be_raised():
    assert documented() - raised() - NOTED == set()


def test_the_search_finds_codes_at_all():
    assert {
        "asserts-nothing",
        "json-syntax",
        "no-agent",
        "unknown-persona",
        "reference-missing",
    } <= raised()
