"""Phrases that readers stumbled over, and names that nobody outside knows, stay out of what users
read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROMPTS = frozenset(
    {"evalgate/criteria/final_response_match_v2.py", "evalgate/simulation/personas.py"}
)
"""Read by models: other words would be another version of the prompt."""

BANNED = (
    "a bug of ours",
    "all the same",
    "as a claim",
    "checks nothing",
    "asks nobody",
    "at a desk",
    "at other times",
    "at your desk",
    "beside the head",
    "by the clock",
    "cannot tell from noise",
    "could be measured in",
    "decides nothing",
    "ends the job red",
    "for a cache to carry",
    "fresh run",
    "gate's own file",
    "goes on with ",
    "is no agent",
    "is no criterion",
    "is no driver",
    "is no json",
    "is no key",
    "is no number",
    "is no pattern",
    "is no repository",
    "is not a results.json",
    "is no setting",
    "let pass",
    "lets none pass",
    "lets pass",
    "names no module",
    "nobody is asked",
    "nobody is known",
    "nobody knows",
    "nobody may be asked",
    "nothing is claimed",
    "nothing reads it",
    ". nothing:",
    "of another plan",
    "one a line",
    "out of reach",
    "people's labels",
    "plan that cannot be",
    "reported as a fact",
    "runs a side",
    "spends nothing",
    "stand twice",
    "stands in no",
    "stands there",
    "stands twice",
    "take them out",
    "test was broken",
    "what decides nothing",
    "what head loosens",
    "what the change weakens",
    "whatever is stored",
    "empty reply",
)
BRITISH = (
    *(
        "artefact",
        "behaviour",
        "catalogue",
        "centralise",
        "colour",
        "favour",
        "generalise",
        "honour",
        "initialise",
    ),
    *(
        "judgement",
        "labelled",
        "labelling",
        "normalise",
        "organise",
        "recognise",
        "serialise",
        "summarise",
        "whilst",
    ),
)
"""Users read American English."""


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines, without docstrings but for those of commands."""
    tree = ast.parse(path.read_text("utf-8"))
    silent: set[int] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                shown = isinstance(node, ast.FunctionDef) and any(
                    "click" in ast.unparse(d) for d in node.decorator_list
                )
                silent |= set() if shown else {id(statement.value)}
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                ),
            )
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
            and " " in node.value
        ):
            yield node.lineno, node.value


def looked_at() -> list[Path]:
    """Everything that users read, but for CHANGELOG.md and the decisions, which say how things came
    to be."""
    sources = [
        path
        for path in (ROOT / "evalgate").rglob("*")
        if path.suffix in {".py", ".j2", ".md", ".html"}
    ]
    own = [path for path in sources if path.relative_to(ROOT).as_posix() not in PROMPTS]
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    top = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "action.yml")]
    return sorted((*own, *pages, *top))


def found_in(text: str) -> list[str]:
    """The banned phrases of a text; code spans (keys, file names) are not prose."""
    prose = re.sub(r"`[^`\n]*`", "`...`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lowered = " ".join(prose.lower().split())
    return [phrase for phrase in (*BANNED, *BRITISH) if phrase in lowered]


def test_no_page_and_no_message_has_a_banned_phrase() -> None:
    found = []
    for path in looked_at():
        texts = strings_of(path) if path.suffix == ".py" else [(1, path.read_text("utf-8"))]
        found += [
            f"{path.relative_to(ROOT)}:{line}: {phrase}"
            for line, text in texts
            for phrase in found_in(text)
        ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("`x` stands\ntwice", ["stands twice"]),
        ("Labelled by hand", ["labelled"]),
        ("`flavour: stands twice`", []),  # a key
        ("```\nat a desk\n```", []),  # an example
    ],
)
def test_phrases_are_found(text: str, phrases: list[str]) -> None:
    assert found_in(text) == phrases


def test_the_glossary_has_twenty_words() -> None:
    rows = re.findall(
        r"^\| (?!Word|---)", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) == 20
