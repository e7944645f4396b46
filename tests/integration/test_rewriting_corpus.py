"""Every readable evaluation file in public repositories: an answer and calls are changed, and
nothing else is."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from builders.rewriting import puts

from evalgate import formats
from evalgate.errors import ConfigError
from evalgate.formats import FileKind, expectations
from evalgate.formats.json_source import Path as JsonPath
from evalgate.model import Content, Event, Invocation, ToolCall
from evalgate.text import plain

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "../shared/corpus"
INDEX = CORPUS / "INDEX.tsv"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not INDEX.exists(), reason="needs the corpus: public evaluation files beside the repository"
    ),
]

ANSWER = 'An answer with "quotes", a\nline and \u00e9.'
CALLS = (
    ToolCall(name="look_up", args={"place": "K\u00f6ln", "days": [1, 2]}),
    ToolCall(name="done"),
)
STEPS = tuple(Event(author="agent", content=Content(parts=(call,), role="model")) for call in CALLS)


def readable() -> list[str]:
    if not INDEX.exists():
        return []
    with INDEX.open(encoding="utf-8", newline="") as index:
        files = [row["file"] for row in csv.DictReader(index, delimiter="\t")]
    found = []
    for file in files:
        text = plain.decode((CORPUS / "files" / file).read_bytes(), file=file)
        if isinstance(text, str) and formats.kind_of(text, file=file) in (
            FileKind.EVAL_SET,
            FileKind.DATASET,
        ):
            found.append(file)
    return found


def without(document: Any, paths: list[JsonPath]) -> Any:
    """The document with what stands at the paths taken out."""
    document = copy.deepcopy(document)
    for *above, last in paths:
        holder = document
        for part in above:
            holder = holder[part]
        if isinstance(holder, list):
            holder[last] = None
        else:
            holder.pop(last, None)
    return document


def untouched(before: str, after: str) -> int:
    """How many characters at both ends are the same."""
    ahead = next(
        (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other),
        len(before),
    )
    behind = next(
        (
            at
            for at, (one, other) in enumerate(zip(before[::-1], after[::-1], strict=False))
            if one != other
        ),
        0,
    )
    return min(ahead + behind, len(before))


def change(text: str, file: str, *, case_id: str, turn: int, of: Invocation) -> int:
    """Change the answer, and the calls, of a turn; how many of the two could be changed."""
    changed = 0
    for wanted in ({"answer": ANSWER}, {"steps": STEPS}):
        try:
            with puts() as paths:
                made = expectations.change(text, file=file, case_id=case_id, turn=turn, **wanted)  # type: ignore[arg-type]
        except ConfigError:
            continue
        changed += 1
        old, new = (json.loads(each.removeprefix(plain.BYTE_ORDER_MARK)) for each in (text, made))
        assert without(old, paths) == without(new, paths)
        assert paths
        if len(paths) == 1:  # what is spliced in is about as long as what is new
            spliced = len(made) - untouched(text, made)
            assert (
                spliced
                <= 8 * len(json.dumps([ANSWER, [[call.name, call.args] for call in CALLS]])) + 2_000
            )
        after = formats.parse_eval_set(made, file=file).eval_set
        assert after is not None
        again = next(case for case in after.cases if case.case_id == case_id)
        assert again.conversation is not None
        if "steps" in wanted:
            assert [
                (call.name, call.args or {}) for call in again.conversation[turn].tool_calls
            ] == [(call.name, call.args or {}) for call in CALLS]
            assert again.conversation[turn].final_response == of.final_response
        else:
            assert again.conversation[turn].events == of.events
    return changed


def test_only_the_value_changes_in_every_readable_file() -> None:
    files = turns = changed = 0
    refused: list[str] = []
    for file in readable():
        text = plain.decode((CORPUS / "files" / file).read_bytes(), file=file)
        assert isinstance(text, str)
        eval_set = formats.parse_eval_set(text, file=file).eval_set
        if eval_set is None:
            continue
        files += 1
        chosen = [case for case in (*eval_set.cases[:2], *eval_set.cases[-1:]) if case.conversation]
        for case in {each.case_id: each for each in chosen}.values():
            conversation = case.conversation or ()
            for turn in sorted({0, len(conversation) - 1}):
                done = change(text, file, case_id=case.case_id, turn=turn, of=conversation[turn])
                turns += 2
                changed += done
                refused += [file] if done < 2 else []
    assert files > 90
    print(files, turns, changed, sorted(set(refused)))
    assert changed >= turns * 0.95, sorted(set(refused))
