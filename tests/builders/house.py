"""Figures of the tree that a reader pays for: `python tests/builders/house.py [FOLDER]` prints
them, one a line.

Tokens are names, operators, numbers and strings, without docstrings: lines can be packed, tokens
cannot."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

COUNTED = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
# fmt: off - a word a line would be a page of them
WORDS_THAT_ARE_NO_NOUNS = frozenset(
    {
        "after",
        "asked",
        "asking",
        "before",
        "both",
        "built",
        "each",
        "found",
        "further",
        "given",
        "held",
        "keeping",
        "keeps",
        "kept",
        "known",
        "left",
        "lent",
        "made",
        "meant",
        "mine",
        "moved",
        "named",
        "now",
        "opened",
        "others",
        "ours",
        "own",
        "rest",
        "ruling",
        "said",
        "seen",
        "shown",
        "taken",
        "tells",
        "theirs",
        "then",
        "these",
        "those",
        "told",
        "wanted",
        "what",
        "where",
        "whole",
        "whose",
        "why",
    }
)
# fmt: on
"""Pronouns, participles and the like, which say nothing of the thing that they name."""
VALUE_CLASS = re.compile(r"dataclass|BaseModel|NamedTuple|Wire|Shape|Proto|Reply|Said|Cxas")
MOST_FIELDS = 8
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(nodes: Iterable[ast.AST]) -> set[int]:
    """The lines of all strings that stand alone in a body."""
    lines: set[int] = set()
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                lines |= set(
                    range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
                )
    return lines


def tokens_by_line(text: str, nodes: Iterable[ast.AST]) -> Counter[int]:
    """How many tokens begin in each line."""
    skipped = docstring_lines(nodes)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    starts = (token.start[0] for token in tokens if token.type in COUNTED)
    return Counter(line for line in starts if line not in skipped)


def assigned_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Variables and parameters, wherever they get a value."""
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def is_value_class(node: ast.ClassDef) -> bool:
    """Whether a class carries data: by its decorators and bases."""
    return bool(
        VALUE_CLASS.search(
            " ".join(ast.unparse(mark) for mark in (*node.decorator_list, *node.bases))
        )
    )


def is_replace(node: ast.expr) -> bool:
    """Whether it is `replace` or `dataclasses.replace`."""
    match node:
        case ast.Name(id="replace") | ast.Attribute(ast.Name(id="dataclasses"), "replace"):
            return True
        case _:
            return False


def figures(root: Path) -> dict[str, float]:
    """All figures of the package in the folder `root`."""
    count: Counter[str] = Counter()
    rooms: Counter[str] = Counter()
    words: set[str] = set()
    files_of_class: defaultdict[str, set[Path]] = defaultdict(set)
    longest = 0
    for path in sorted(root.rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(root)
        nodes = list(ast.walk(ast.parse(text)))
        tokens = tokens_by_line(text, nodes)
        names = list(assigned_names(nodes))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        values = [node for node in classes if is_value_class(node)]
        fields = [sum(isinstance(line, ast.AnnAssign) for line in node.body) for node in values]
        lengths = [
            sum(tokens[line] for line in range(node.lineno, node.end_lineno + 1))
            for node in functions
        ]
        longest = max(longest, *lengths, 0)
        # a wing is a room
        rooms["/".join(place.parts[: 2 if place.parts[0] == "wings" else 1])] += text.count("\n")
        count["modules"] += 1
        count["tokens"] += tokens.total()
        count["core_tokens"] += 0 if place.parts[0] == "wings" else tokens.total()
        count["statements"] += sum(isinstance(node, ast.stmt) for node in nodes)
        count["names"] += len(names)
        count["odd_names"] += sum(name.lstrip("_") in WORDS_THAT_ARE_NO_NOUNS for name in names)
        count["value_classes"] += len(values)
        count["over_8_fields"] += sum(number > MOST_FIELDS for number in fields)
        count["replace"] += sum(
            isinstance(node, ast.Call) and is_replace(node.func) for node in nodes
        )
        for part in place.with_suffix("").parts:
            words |= set(re.findall(r"[a-z]+", part.lower()))
        for node in (*classes, *functions):
            words |= {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", node.name)}
        if "worker" not in place.parts:  # each of its modules stands alone in an agent's process
            for node in classes:
                files_of_class[node.name].add(path)
    return {
        "tokens": count["tokens"],
        "core_tokens": count["core_tokens"],  # all but the wings
        "tokens_per_statement": round(count["tokens"] / max(count["statements"], 1), 1),
        "odd_names_per_1000": round(1000 * count["odd_names"] / max(count["names"], 1)),
        "modules": count["modules"],
        "value_classes": count["value_classes"],
        "over_8_fields": count["over_8_fields"],
        "doubled_class_names": sum(len(files) > 1 for files in files_of_class.values()),
        "words": len(words),
        "replace": count["replace"],
        "largest_room": max(rooms.values(), default=0),
        "longest_function": longest,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "evalgate"
    for name, figure in figures(folder).items():
        print(f'    "{name}": {figure},')
