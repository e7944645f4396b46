"""A case changed by hand: what a turn expects, its rubrics; a case that is deleted.

Only that place of its file changes (`formats.expectations`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evalgate.config import places
from evalgate.errors import ConfigError, Place
from evalgate.formats import eval_set, expectations, fingerprints, rewrite
from evalgate.model import Case, CaseKey, Content, Event, Rubric, ToolCall


def find(root: Path, key: CaseKey) -> tuple[Path, Case | None]:
    """The file of a case, and the case as it stands there now. Raises ConfigError, UnavailableError."""
    suite, case_id = key
    why = places.why_not(root, suite)
    if why:
        raise ConfigError(f"the path {why}", where=Place(file=suite))
    path = root / suite
    reading = eval_set.parse_eval_set(rewrite.read(path, shown_as=suite).text, file=suite)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    return path, next((case for case in reading.eval_set.cases if case.case_id == case_id), None)


def version_of(case: Case) -> str:
    """Another one when anything of the case is another."""
    return fingerprints.of_case(case)


def change(
    root: Path,
    key: CaseKey,
    *,
    version: str,
    answers: Mapping[int, str],
    calls: Mapping[int, Sequence[ToolCall]],
    rubrics: Sequence[Rubric] | None = None,
) -> None:
    """Make turns (from 0) of a case expect these answers and calls, and give it these rubrics in place of its own.

    `rubrics` None: they stay. `version`: of the case that was looked at. Raises ConfigError, also where it has changed
    since."""
    file, case_id = key
    ids = [rubric.rubric_id for rubric in rubrics or ()]
    if len({*ids}) != len(ids) or not all(ids) or not all(rubric.text.strip() for rubric in rubrics or ()):
        raise ConfigError("each rubric needs an id of its own and a text", where=Place(file=file))

    def made(text: str) -> str:
        for turn in sorted({*answers, *calls}):
            parts = tuple(calls.get(turn, ()))
            steps = [Event(author="agent", content=Content(parts=parts, role="model"))] if parts else []
            text = expectations.change(
                text,
                file=file,
                case_id=case_id,
                turn=turn,
                answer=answers.get(turn),
                steps=steps if turn in calls else None,
            ).text
        if rubrics is None:
            return text
        return expectations.set_rubrics(text, file=file, case_id=case_id, rubrics=rubrics)

    _change(root, key, version, made)


def delete(root: Path, key: CaseKey, *, version: str) -> None:
    """Take a case out of its file. Raises as `change`."""
    _change(root, key, version, lambda text: expectations.delete_case(text, file=key[0], case_id=key[1]))


def _change(root: Path, key: CaseKey, version: str, make: Callable[[str], str]) -> None:
    path, case = find(root, key)
    source = rewrite.read(path, shown_as=key[0])
    if case is None or version_of(case) != version:
        message = f"case {key[1]!r} was changed meanwhile"
        raise ConfigError(message, where=Place(file=key[0]), hint="Look at it again, then change it.")
    rewrite.save(source, make(source.text))
