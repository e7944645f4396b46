"""Which recording stands for a trial, and the conversation that it gives: nothing that was not recorded so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalgate import words
from evalgate.model import AgentFailure, Case, Content, FailureKind, Invocation, Json, Text, Transcript, TrialKey
from evalgate.plugins import AgentFailed
from evalgate.sessions.recorded import Record, Shelf


def no_recording(message: str, *, turn: int | None = None, partial: tuple[Invocation, ...] = ()) -> AgentFailed:
    """There is nothing to replay, ready to be raised."""
    failure = AgentFailure(kind=FailureKind.NO_RECORDING, message=message, turn=turn, partial=partial)
    return AgentFailed(failure)


def pick(shelf: Shelf, *, case: Case, key: TrialKey, suite_file: Path) -> Transcript:
    """The recording of one trial. Raises AgentFailed (NO_RECORDING).

    Candidates have the case's id and stand in another file than the suite (whose expectations would be compared
    with themselves). Where several evaluation sets have a case of that id, the one that is named like the suite's
    file is meant, else the only one in which the user says the same. Repeat k takes the k-th recording, and a single
    one stands for all repeats.
    """
    everything = shelf.find(case.case_id)
    found = [record for record in everything if not _same_file(record.path, suite_file)]
    if not found:
        expected = f"case {case.case_id} has only expectations, in the evaluation file itself, and no recording"
        raise no_recording(expected if everything else _nothing_for(shelf, case))
    records = _of_one_set(found, case, key)
    if len(records) > 1 and key.repeat >= len(records):
        count = words.counted(len(records), "recording")
        raise no_recording(f"there are {count} of case {case.case_id}, and none for repeat {key.repeat + 1}")
    record = records[key.repeat if len(records) > 1 else 0]
    if record.transcript is None:
        raise no_recording(f"the recording in {record.path.name} is not readable: {record.problem}")
    return record.transcript


def _same_file(one: Path, other: Path) -> bool:
    return one.name == other.name and one.resolve() == other.resolve()


def _nothing_for(shelf: Shelf, case: Case) -> str:
    if not len(shelf):
        why = f": {words.listed(shelf.problems, limit=3)}" if shelf.problems else ""
        return f"there are no recordings{f' {shelf.sought}' if shelf.sought else ''}{why}"
    near = words.nearest(case.case_id, shelf.names()) if len(shelf) < 10_000 else None
    hint = f"; there is one of {near}" if near else ""
    trouble = f" ({words.listed(shelf.problems, limit=2)})" if shelf.problems else ""
    return f"nothing is recorded for case {case.case_id}{hint}{trouble}"


def _of_one_set(records: Sequence[Record], case: Case, key: TrialKey) -> Sequence[Record]:
    sets = {record.eval_set_id for record in records}
    if len(sets) == 1:
        return records
    file = key.suite.rpartition("/")[2]
    for name in (key.suite, file, file.partition(".")[0]):
        if name in sets:
            return [record for record in records if record.eval_set_id == name]
    alike = [record for record in records if _same_questions(record.transcript, case)]
    left = {record.eval_set_id for record in alike}
    if len(left) == 1:
        return alike
    names = words.listed(sorted(str(name) for name in sets))
    raise no_recording(f"case {case.case_id} is recorded for several evaluation sets ({names}); name the file to use")


def _same_questions(transcript: Transcript | None, case: Case) -> bool:
    if transcript is None or case.conversation is None or len(transcript.invocations) < len(case.conversation):
        return False
    pairs = zip(transcript.invocations, case.conversation, strict=False)  # what was recorded beyond it does not matter
    return all(_said(recorded.user_content) == _said(asked.user_content) for recorded, asked in pairs)


class ReplayedConversation:
    """A recorded conversation, given again turn by turn while the user says what was said then."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._done: list[Invocation] = []

    def send(self, user_content: Content) -> Invocation:
        """The recorded turn. Raises AgentFailed (NO_RECORDING) where the user says something else than then."""
        number = len(self._done)
        recorded = self._transcript.invocations
        if number >= len(recorded):
            turns = words.counted(len(recorded), "turn")
            raise self._nothing(f"the recording has only {turns}")
        invocation = recorded[number]
        then, now = _said(invocation.user_content), _said(user_content)
        if then != now:
            raise self._nothing(f"the recording is of a different conversation: {_difference(then, now)}")
        self._done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The recorded state, where the recording ends here too."""
        return self._transcript.final_state if len(self._done) == len(self._transcript.invocations) else None

    def _nothing(self, message: str) -> AgentFailed:
        return no_recording(message, turn=len(self._done) + 1, partial=tuple(self._done))


def _said(content: Content) -> tuple[str, tuple[Any, ...]]:
    """What a user says, however it is cut into parts: the text, and all that is no text."""
    text = "".join(part.text for part in content.parts if isinstance(part, Text))
    return text, tuple(part for part in content.parts if not isinstance(part, Text))


def _difference(then: tuple[str, tuple[Any, ...]], now: tuple[str, tuple[Any, ...]]) -> str:
    if then[0] == now[0]:
        return "the user's text is the same, but the other parts of the message (files, calls) differ"
    pairs = enumerate(zip(then[0], now[0], strict=False))  # the shorter text ends where they differ at the latest
    at = next((i for i, (a, b) in pairs if a != b), min(len(then[0]), len(now[0])))
    start = max(at - 30, 0)
    return f"the user said {_excerpt(then[0], start)} then and {_excerpt(now[0], start)} now"


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + 80]
    return repr(f"{'...' if start else ''}{shown}{'...' if start + 80 < len(text) else ''}")
