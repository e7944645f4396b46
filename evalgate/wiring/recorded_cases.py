"""Conversations that simulated users led, written down as cases: their words are replayed, no model plays them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Container
from pathlib import Path

from evalgate.errors import ConfigError, NothingToDo, UnavailableError
from evalgate.model import Case, Content, Event, Invocation, Run, Text, TrialKey
from evalgate.pipeline import fingerprints
from evalgate.results import file as results_file
from evalgate.text import words
from evalgate.wire import case_writing

DESCRIPTION = "Conversations with simulated users, recorded by evalgate; review before use."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The file that was written, how many cases it holds, and how many scenarios had no conversation to hold."""

    file: Path
    count: int
    left_out: int


def record(root: Path, *, results: Path, into: str) -> Recorded:
    """Write the first conversation of every scenario in `results` into a set below `into` (relative to `root`).

    Raises ConfigError where the results cannot be read or the same was recorded before, NothingToDo without scenarios,
    UnavailableError where nothing can be written.
    """
    run = results_file.read_results(results).run
    cases, left_out = cases_of(run)
    if not cases:
        raise NothingToDo(f"{results.name} has no complete conversation with a simulated user")
    written = [case_writing.case_json(case) for case in cases]
    name = f"recorded_{fingerprints.digest(written)[:8]}"
    path = root / into / f"{name}.evalset.json"
    whole = {"eval_set_id": name, "name": name, "description": DESCRIPTION, "eval_cases": written}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    except FileExistsError:
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        raise ConfigError(f"{shown} exists already") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror or error}") from error
    return Recorded(file=path, count=len(cases), left_out=left_out)


def cases_of(run: Run) -> tuple[tuple[Case, ...], int]:
    """A case for each scenario: its first conversation, what the agent did in it as the reference; and how many
    scenarios have none."""
    made: list[Case] = []
    left_out = 0
    names: set[str] = set()
    for suite in run.suites:
        for case in suite.eval_set.cases:
            if case.scenario is None:
                continue
            first = _first(run, suite.key, case.case_id)
            if first is None:
                left_out += 1
                continue
            name = _unused(case.case_id, names)
            names.add(name)
            turns = tuple(_turn(each) for each in first)
            made.append(dataclasses.replace(case, case_id=name, scenario=None, conversation=turns, place=None))
    return tuple(made), left_out


def _first(run: Run, suite: str, case_id: str) -> tuple[Invocation, ...] | None:
    """The conversation of the first repeat that came to its end."""
    for repeat in range(run.expected(suite, case_id)):
        found = run.transcripts.find(TrialKey(suite=suite, case_id=case_id, repeat=repeat))
        if found is not None and found.invocations:
            return found.invocations
    return None


def _unused(case_id: str, names: Container[str]) -> str:
    """The id, with a number where another suite has it, too."""
    numbered = (f"{case_id}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([case_id], numbered) if name not in names)


def summary(recorded: Recorded) -> str:
    """What was recorded, in a sentence."""
    said = words.counted(recorded.count, "conversation")
    rest = words.counted(recorded.left_out, "scenario")
    return said + (f"; {rest} had none" if recorded.left_out else "")


def _turn(turn: Invocation) -> Invocation:
    """What a reference has: the user's words, the agents' words and calls, the answer."""
    events = tuple(
        Event(author=event.author, content=aloud)
        for event in turn.events or ()
        if event.content is not None and (aloud := _aloud(event.content)).parts
    )
    final = None if turn.final_response is None else _aloud(turn.final_response)
    return Invocation(
        user_content=turn.user_content,
        final_response=final if final is not None and final.parts else None,
        events=None if turn.events is None else events,
        itemized=turn.itemized,
        rubrics=turn.rubrics,
    )


def _aloud(content: Content) -> Content:
    """Without the model's thoughts."""
    parts = tuple(part for part in content.parts if not (isinstance(part, Text) and part.thought))
    return dataclasses.replace(content, parts=parts)
