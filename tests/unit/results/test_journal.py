"""The journal keeps what ended, survives a kill at any byte, and finds only what is the same."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.errors import UnavailableError
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    Attachment,
    Content,
    Ending,
    Event,
    FailureKind,
    Finding,
    Grade,
    Inputs,
    Invocation,
    NotEvaluated,
    Outcome,
    Reason,
    Score,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Transcript,
    Trial,
    TrialKey,
    Usage,
)
from evalgate.model.trial import MOST
from evalgate.results import journal as results_journal, shapes
from evalgate.results.journal import Journal
from evalgate.system import redact as redaction

text = st.text(max_size=12)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
mapping = st.dictionaries(text, anything, max_size=3)
parts = st.one_of(
    st.builds(Text, text=text, thought=st.booleans()),
    st.builds(ToolCall, name=text, args=st.none() | mapping, id=st.none() | text),
    st.builds(ToolResponse, name=text, response=st.none() | mapping, id=st.none() | text),
    st.just(Attachment(data={"inline_data": {"mime_type": "image/png", "data": "aGk="}})),
)
contents = st.builds(Content, role=st.none() | text, parts=st.lists(parts, max_size=3).map(tuple))
usage = st.builds(
    Usage, prompt_tokens=st.none() | st.integers(0, 9), total_tokens=st.none() | st.integers(0, 9)
)
events = st.builds(
    Event,
    author=text,
    content=st.none() | contents,
    usage=st.none() | usage,
    model_version=st.none() | text,
)
agents = st.lists(
    st.builds(AgentDetails, name=text, instructions=text), max_size=2, unique_by=lambda a: a.name
).map(tuple)
invocations = st.builds(
    Invocation,
    user_content=contents,
    final_response=st.none() | contents,
    events=st.none() | st.lists(events, max_size=3).map(tuple),
    invocation_id=text,
    agents=agents,
    timings=st.none()
    | st.builds(Timings, total_s=st.floats(0, 9), model_s=st.none() | st.floats(0, 9)),
)
outcomes = st.one_of(
    st.builds(
        Transcript,
        invocations=st.lists(invocations, max_size=2).map(tuple),
        final_state=st.none() | mapping,
        ended_by=st.none() | st.sampled_from(Ending),
    ),
    st.builds(
        AgentFailure,
        kind=st.sampled_from(FailureKind),
        message=text,
        turn=st.none() | st.integers(1, 9),
    ),
)
finite = st.floats(-MOST, MOST)
turns = st.lists(st.none() | finite, max_size=3).map(tuple)
grades = st.one_of(
    st.builds(
        Score,
        value=finite,
        turns=turns,
        breakdown=st.dictionaries(text, finite, max_size=2),
        findings=st.lists(
            st.builds(Finding, text=text, turn=st.none() | st.just(1), label=text), max_size=2
        ).map(tuple),
    ),
    st.builds(NotEvaluated, reason=st.sampled_from(Reason), message=text, turns=turns),
)
KEY = TrialKey(suite="a.evalset.json", case_id="ü\n한", number=2)


@settings(max_examples=150)
@given(outcome=outcomes, grade=grades)
def test_what_went_in_comes_out(
    outcome: Outcome, grade: Grade, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal.create(path, about={})
    journal.add_trial("t1", Trial(key=KEY, outcome=outcome, seconds=1.5, attempts=2))
    journal.add_grade("g1", grade)
    journal.close()
    trial = Trial(key=KEY, outcome=outcome, seconds=1.5, attempts=2)
    with Journal.read(path) as again:
        assert again.trial("t1", KEY) == trial
        assert again.grade("g1") == grade
        assert again.find(KEY) == (outcome if isinstance(outcome, Transcript) else None)
        assert again.damaged == 0


def filled(path: Path) -> list[str]:
    journal = Journal.create(path, about={"evalgate": "x"})
    details = (AgentDetails(name="desk"),)
    for number in range(5):
        turn = Invocation(user_content=Content(parts=(Text(text=f"é{number}"),)), agents=details)
        key = TrialKey(suite="s", case_id=f"c{number}")
        journal.add_trial(f"t{number}", Trial(key=key, outcome=Transcript(invocations=(turn,))))
        journal.add_grade(f"g{number}", Score(value=number))
    journal.close()
    return [f"t{number}" for number in range(5)]


def test_a_kill_at_any_byte_leaves_a_journal_of_whole_lines(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    addresses = filled(whole)
    data = whole.read_bytes()
    known_before = 0
    for length in range(0, len(data) + 1, 7):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:length])
        with Journal.read(path) as journal:
            known = sum(journal.knows(address) for address in addresses)
            assert journal.damaged == 0
        assert known >= known_before  # never loses what an earlier cut had
        known_before = known
    assert known_before == 5


def test_what_agents_were_told_is_written_once(tmp_path: Path) -> None:
    filled(tmp_path / "journal.jsonl")
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert sum('"details"' in line for line in lines) == 1


def test_a_full_disk_stops_with_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.symlink_to("/dev/full")  # the kernel's own full disk: every write fails with ENOSPC
    with pytest.raises(UnavailableError, match="No space left") as caught:
        Journal.create(path, about={})
    assert "--resume" in caught.value.hint


def test_a_journal_in_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path)
    path.write_text(
        path.read_text().replace(f'{{"journal":{results_journal.VERSION}', '{"journal":0')
    )
    before = path.read_bytes()
    with pytest.raises(UnavailableError, match="incompatible version") as caught:
        Journal.read(path)
    assert "without --resume" in caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "said",
    [
        "x" * 7_900,  # a line of about one read
        "x" * 300_000,  # a line of many reads
        "half a character: \ud800",  # which UTF-8 cannot hold
    ],
)
def test_what_is_long_or_odd_is_found_again(said: str, tmp_path: Path) -> None:
    outcome = Transcript(invocations=(Invocation(user_content=Content(parts=(Text(text=said),))),))
    with Journal.create(tmp_path / "journal.jsonl", about={}) as journal:
        for number in range(3):
            key = TrialKey(suite="s", case_id=f"c{number}")
            journal.add_trial(f"t{number}", Trial(key=key, outcome=outcome))
            assert journal.find(key) == outcome


def test_values_of_any_depth_that_json_takes_are_kept(tmp_path: Path) -> None:
    args: dict[str, Any] = {}
    for _ in range(400):  # deeper than the fast writer goes
        args = {"in": args}
    turn = Invocation(user_content=Content(parts=(ToolCall(name="f", args=args),)))
    with Journal.create(tmp_path / "journal.jsonl", about={}) as journal:
        journal.add_trial("t", Trial(key=KEY, outcome=Transcript(invocations=(turn,))))
        found = journal.find_json(KEY)
    assert found is not None
    assert found["invocations"][0]["user_content"]["parts"] == [
        {"function_call": {"name": "f", "args": args}}
    ]


DAMAGED = [
    b"garbage",
    b"",
    b"[1, 2]",
    b"\x00" * 50,
    b"\xff\xfe\xfd",
    b"[" * 100_000,
    # JSON, but nothing that we write
    b"{}",
    b'{"trial": "x"}',
    b'{"trial": "x", "outcome": 3}',
    b'{"trial": "x", "outcome": {}}',
    b'{"trial": "x", "outcome": {"kind": "transcript", "invocations": [], "agents": ["unknown"]}}',
    b'{"grade": 5}',
    b'{"grade": "g", "score": "high"}',
    b'{"agents": "x"}',
    b'{"agents": "x", "details": 3}',
    b'{"inputs": "agent", "environment": "e", "answers": 3}',
    b'{"inputs": "agent", "environment": "e", "answers": {"file a": 3}}',
]


@pytest.mark.parametrize("data", DAMAGED, ids=lambda data: data[:60].decode(errors="replace"))
def test_a_damaged_line_costs_nothing_but_itself(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], data + b"\n", *lines[3:], data + b"\n", b'{"torn": ']))
    with Journal.read(path) as journal:
        assert journal.damaged == 2
        assert [journal.trial(f"t{number}", KEY) is not None for number in range(5)] == [True] * 5
        assert [journal.grade(f"g{number}") for number in range(5)] == [
            Score(value=number) for number in range(5)
        ]


def test_an_outcome_that_is_none_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path)
    with path.open("a") as file:
        file.write('{"trial": "x", "outcome": {"kind": "transcript", "invocations": 3}}\n')
    with Journal.read(path) as journal:
        assert journal.trial("x", KEY) is None


READ = Inputs(environment="e", answers={"file a.py": "1"})
MORE = Inputs(environment="e", answers={"file a.py": "1", "file b.md": "2"})


def asked(path: Path) -> list[bytes]:
    """The lines of a journal in which two trials came, and the agent read something more between
    them."""
    with Journal.create(path, about={}) as journal:
        for number, inputs in enumerate((READ, MORE)):
            journal.add_inputs("agent", inputs)
            journal.add_inputs("agent", inputs)  # which is not written twice
            journal.add_trial(
                f"t{number}", Trial(key=KEY, outcome=Transcript(invocations=())), agent="agent"
            )
    return path.read_bytes().splitlines(keepends=True)


def test_what_an_agent_read_stands_before_its_trial(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = asked(path)
    assert [b'"inputs"' in line for line in lines] == [False, True, False, True, False]
    for count, inputs in ((2, READ), (3, READ), (4, MORE), (5, MORE)):  # killed after so many lines
        path.write_bytes(b"".join(lines[:count]))
        with Journal.read(path) as journal:
            assert journal.inputs == {"agent": inputs}


def test_a_trial_whose_inputs_are_not_all_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = asked(path)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with Journal.read(path) as journal:
        assert [journal.knows(f"t{number}") for number in range(2)] == [True, False]
        assert journal.damaged == 1


def test_an_agent_that_ran_in_two_environments_ran_in_none_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, about={}) as journal:
        journal.add_inputs("agent", READ)
        journal.add_inputs("agent", dataclasses.replace(READ, environment="other"))
    with Journal.read(path) as journal:
        assert not journal.inputs["agent"].is_known


def test_a_journal_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, about={}) as journal:
        journal.add_grade("g1", Score(value=1))
        before = path.read_bytes()
        with pytest.raises(
            UnavailableError, match=f"another evalgate is running in the folder {tmp_path}"
        ) as caught:
            Journal.create(path, about={})
        assert "--output" in caught.value.hint
        assert path.read_bytes() == before
    Journal.create(path, about={}).close()


def test_a_file_system_without_locks_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "journal.jsonl"
    filled(path)
    with Journal.read(path) as journal:
        assert (journal.trials > 0, journal.damaged) == (True, 0)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "Free some disk space"),
        (errno.EDQUOT, "Free some disk space"),
        (errno.EIO, "The disk failed"),
        (errno.EACCES, "or set `output` to another folder"),
        (errno.EROFS, "or set `output` to another folder"),
    ],
)
def test_an_unwritable_journal_asks_for_what_helps(number: int, hint: str) -> None:
    error = results_journal.not_written(
        Path("report/journal.jsonl"), OSError(number, os.strerror(number))
    )
    assert os.strerror(number) in error.message
    assert hint in error.hint
    assert ("--resume" in error.hint) == (number not in {errno.EACCES, errno.EROFS})


def test_a_folder_in_the_journals_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(UnavailableError, match="Is a directory") as caught:
        Journal.create(tmp_path / "journal.jsonl", about={})
    assert "Free some disk space" not in caught.value.hint


def test_no_trial_stands_before_what_its_agents_were_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(case_id: str) -> Trial:
        said = Content(role="user", parts=(Text(text="hi"),))
        turn = Invocation(
            user_content=said, agents=(AgentDetails(name="desk", instructions="Answer."),)
        )
        return Trial(
            key=TrialKey(suite="s", case_id=case_id),
            outcome=Transcript(invocations=(turn,)),
            seconds=0.1,
        )

    path, written, calls = tmp_path / "journal.jsonl", shapes.agents_json, []
    journal = Journal.create(path, about={})
    other = threading.Thread(target=journal.add_trial, args=("t2", told("c2")))

    def while_another_comes(agents: tuple[AgentDetails, ...]) -> Any:
        calls.append(agents)
        if len(calls) == 2:  # first for the address, then for the line
            other.start()
            other.join(0.2)
        return written(agents)

    monkeypatch.setattr(shapes, "agents_json", while_another_comes)
    journal.add_trial("t1", told("c1"))
    other.join()
    journal.close()
    with Journal.read(path) as again:
        assert (again.trials, again.damaged) == (2, 0)


def test_a_journal_is_never_emptied_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, about={"a": 1}):
        monkeypatch.setattr(Path, "exists", lambda _: False)  # as it looked when both began
        with pytest.raises(UnavailableError):
            Journal.create(path, about={})
        assert b'"a":1' in path.read_bytes()


def emptied(path: Path) -> None:
    path.write_bytes(b"xx")


def forged(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hello", b"HELLO"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


@pytest.mark.parametrize("change", [emptied, forged, cut])
def test_a_trial_that_somebody_else_changed_is_told(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, about={}) as journal:
        said = Content(parts=(Text(text="hello"),))
        outcome = Transcript(invocations=(Invocation(user_content=said),))
        journal.add_trial("t", Trial(key=KEY, outcome=outcome))
        assert journal.find(KEY) == outcome
        change(path)
        for look in (journal.find, journal.find_json):
            with pytest.raises(
                UnavailableError, match="was changed during the run, by the agent or by another"
            ) as told:
                look(KEY)
            assert "`output`" in told.value.hint


def test_the_last_transcripts_stay_in_memory_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_journal, "CACHED_BYTES", 600)
    keys = [TrialKey(suite="s", case_id=f"c{number}") for number in range(6)]
    outcomes = [
        Transcript(invocations=(Invocation(user_content=Content(parts=(Text(text=key.case_id),))),))
        for key in keys
    ]
    with Journal.create(tmp_path / "journal.jsonl", about={}) as journal:
        for key, outcome in zip(keys, outcomes, strict=True):
            journal.add_trial(key.case_id, Trial(key=key, outcome=outcome))
        assert journal.find(keys[-1]) is outcomes[-1]
        first = journal.find(keys[0])
        assert (first == outcomes[0], first is outcomes[0]) == (True, False)
        assert journal.find(keys[0]) is first


def test_who_writes_into_a_journal_ends_the_run_and_costs_only_what_it_destroyed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.jsonl"
    trial = Trial(key=KEY, outcome=Transcript(invocations=()))
    with Journal.create(path, about={}) as journal:
        journal.add_trial("destroyed", trial)
        emptied(path)
        with pytest.raises(UnavailableError, match="was changed during the run"):
            journal.add_trial("t1", trial)
        journal.add_trial("t2", trial)  # another thread's, which was under way
    with Journal.read(path) as again:
        assert [again.trial(name, KEY) for name in ("destroyed", "t1", "t2")] == [
            None,
            trial,
            trial,
        ]


def test_a_journal_says_of_what_it_is_and_whether_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert results_journal.peek(path) is None
    with Journal.create(
        path, about={"started_at": "now", "workflow_run": "o/r/actions/runs/1"}
    ) as ours:
        ours.add_grade("g", Score(value=1.0))
        assert results_journal.peek(path) == ("now", "o/r/actions/runs/1", False)
        assert not results_journal.is_free(path)
        ours.finish()
        assert results_journal.peek(path) == ("now", "o/r/actions/runs/1", True)
    assert results_journal.is_free(path)
    (tmp_path / "link").symlink_to("/dev/zero")
    assert results_journal.peek(tmp_path / "link") is None


def test_a_journal_tells_how_far_a_killed_run_came(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    trial = Trial(key=KEY, outcome=AgentFailure(kind=FailureKind.RAISED, message="no"))
    with Journal.create(path, about={}) as journal:
        assert results_journal.progress(path) == (0, 0)
        journal.expect(2)
        journal.add_trial("a", trial)
        journal.expect(3)  # failures run again
        journal.add_trial("b", trial)
    path.write_bytes(path.read_bytes()[:-5])  # the kill
    assert results_journal.progress(path) == (1, 5)


def test_what_holds_a_secret_is_for_readers_and_is_run_again(tmp_path: Path) -> None:
    path, key = tmp_path / "journal.jsonl", TrialKey(suite="s", case_id="c")
    said = Invocation(
        user_content=Content(parts=(Text(text="q"),)),
        final_response=Content(
            parts=(Text(text="it is s3cret"), ToolCall(name="s3cret", args={"s3cret": ["s3cret"]}))
        ),
        agents=(AgentDetails(name="desk", instructions="use s3cret"),),
    )
    failed = AgentFailure(
        kind=FailureKind.RAISED, message="with s3cret", detail="s3cret", partial=(said,)
    )
    score = Score(value=0.5, findings=(Finding(text="said s3cret"),))
    with Journal.create(
        path, about={}, redact=lambda text: text.replace("s3cret", "***")
    ) as journal:
        journal.add_trial("whole", Trial(key=key, outcome=Transcript(invocations=(said,))))
        journal.add_trial("failed", Trial(key=dataclasses.replace(key, number=1), outcome=failed))
        journal.add_grade("grade", score)
        shown = journal.find(key)
        assert shown is not None
        assert shown.redacted
        assert "ToolCall(name='***', args={'***': ['***']}" in str(shown)
        assert "s3cret" not in f"{shown}{journal.agents()}{journal.grade('grade')}"
        assert not journal.trial("whole", key), (
            "scored by what was taken out it would have another score"
        )
    assert b"s3cret" not in path.read_bytes()
    with Journal.read(path) as journal:
        assert (journal.knows("whole"), journal.knows("failed")) == (False, True)


@pytest.mark.parametrize("word", ["transcript", "invocations", "user_content", '"kind":"'])
def test_a_secret_that_is_a_word_of_the_layout_breaks_nothing(word: str, tmp_path: Path) -> None:
    key, said = TrialKey(suite="s", case_id="c"), Content(parts=(Text(text="q"),))
    redact: Callable[[str], str] = lambda text: text.replace(word, "***")  # noqa: E731 - typed in one line, used once
    with Journal.create(tmp_path / "journal.jsonl", about={}, redact=redact) as journal:
        transcript = Transcript(invocations=(Invocation(user_content=said),))
        journal.add_trial("t", Trial(key=key, outcome=transcript))
        assert journal.find(key) == transcript


def test_a_secret_that_is_json_itself_is_taken_out(tmp_path: Path) -> None:
    account = {"kind": "account", "private_key": "MIIEvQIBADANBg"}
    redact = redaction.redactor_of_files(
        {"GOOGLE_CREDENTIALS": json.dumps(account, separators=(",", ":"))}
    )
    key, said = TrialKey(suite="s", case_id="c"), Content(parts=(ToolCall(name="f", args=account),))
    with Journal.create(tmp_path / "journal.jsonl", about={}, redact=redact) as journal:
        transcript = Transcript(invocations=(Invocation(user_content=said),))
        journal.add_trial("t", Trial(key=key, outcome=transcript))
        assert "MIIEvQIBADANBg" not in str(journal.find(key))
        assert "account" in str(journal.find(key))
