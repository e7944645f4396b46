"""Progress in a log: few lines, each one line, and every kind of failure once."""

from __future__ import annotations

import io
import re

import pytest

from evalgate.gate import progress
from evalgate.model import (
    AgentFailure,
    Content,
    Event,
    FailureKind,
    Invocation,
    Transcript,
    TrialKey,
    Usage,
    VerdictKind,
)

KEY = TrialKey(suite="s", case_id="c\n::error::x")
CRASH = AgentFailure(kind=FailureKind.EXITED, message="exited\n::set-output name=x::y")
HOSTILE = "red\x1b[31m \x1b]0;title\x07 nul\x00 \u202egpj.exe ##[error]x \x1b]8;;http://x\x1b\\link"
TAME = "red nul[U+0000] [U+202E]gpj.exe # #[error]x link"


def test_plain_lines() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=5)
    for outcome in (Transcript(invocations=()), CRASH, CRASH, Transcript(invocations=())):
        watcher.trial_done(KEY, outcome, 0.1)
    watcher.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "running 5 trials"
    assert len(lines) == 3  # the crash is told once, however often it happens
    assert "the agent failed: exited" in lines[1]
    assert lines[2].startswith("4/5 in ")
    assert lines[2].endswith("2 agent failures")
    assert not any(line.startswith("::") for line in lines)


def test_the_time_to_the_first_trial_is_said_once_and_of_no_earlier_result() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, times=True)
    watcher.begin(trials=3)
    watcher.trial_done(KEY, Transcript(invocations=()), 0.1, is_known=True)
    for _ in range(2):
        watcher.trial_done(KEY, Transcript(invocations=()), 0.1)
    (line,) = stream.getvalue().splitlines()[1:]
    assert re.fullmatch(r"time: first trial after \d+\.\d s", line)


def test_reruns_are_called_so_with_what_they_are_for() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=2)
    for _ in range(2):
        watcher.trial_done(KEY, Transcript(invocations=()), 0.1, kind=VerdictKind.FAIL)
    watcher.end()
    # in two rounds, of which the second has another failure that turned up
    for count, trials in ((2, 3), (2, 1), (3, 2)):
        watcher.begin(trials=trials, reason=f"confirming {count} failures")
        watcher.trial_done(KEY, Transcript(invocations=()), 0.1, kind=VerdictKind.FAIL)
        watcher.end()
    first, _, *more = stream.getvalue().splitlines()
    assert (first, more) == ("running 2 trials", ["confirming 2 failures", "confirming 3 failures"])


def test_how_far_reruns_are_is_said_of_all_their_rounds() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, every_s=0.0)
    watcher.begin(trials=2)
    watcher.trial_done(KEY, Transcript(invocations=()), 0.1, kind=VerdictKind.FAIL)
    for trials in (3, 2):
        watcher.begin(trials=trials, reason="confirming 1 failure")
        watcher.trial_done(KEY, Transcript(invocations=()), 0.1, kind=VerdictKind.PASS)
    assert stream.getvalue().splitlines()[-1].startswith("2/5 reruns in ")
    assert stream.getvalue().splitlines()[-1].endswith(", 2 pass"), (
        "those of the first runs are not among them"
    )


def test_a_line_when_time_has_passed() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, every_s=0.0)
    watcher.begin(trials=2)
    watcher.trial_done(KEY, Transcript(invocations=()), 0.1)
    assert "1/2 in" in stream.getvalue()
    watcher.trial_done(KEY, Transcript(invocations=()), 0.1)
    watcher.end()
    assert len(stream.getvalue().splitlines()) == 3  # the last line is not said twice


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    assert isinstance(progress.watch(io.StringIO()), progress.PlainWatcher)


def test_what_an_agent_says_as_it_fails_hides_nothing_and_commands_nobody() -> None:
    """Its own words come first on a line where it is the case that is named after a command."""
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=1)
    key = TrialKey(suite="\x1b[2J::error::x", case_id="c")
    watcher.trial_done(key, AgentFailure(kind=FailureKind.RAISED, message=HOSTILE), 0.1)
    watcher.say(f"##[group] {HOSTILE}")
    _, failed, said = stream.getvalue().splitlines()
    assert failed.startswith(": :error::x")
    assert failed.endswith(f"the agent failed: {TAME}")
    assert said == f"# #[group] {TAME}"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_that_moves() -> None:
    stream = Terminal()
    watcher = progress.watch(stream)
    watcher.begin(trials=2)
    watcher.trial_done(KEY, CRASH, 0.1)
    watcher.say("a word [bold]in[/bold] between")
    watcher.say("\x1b]0;owned\x07 \u202e")
    watcher.end()
    assert "owned" not in stream.getvalue()
    assert "[U+202E]" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()  # it moves the cursor
    assert "1 agent failure" in stream.getvalue()
    assert "a word [bold]in[/bold] between" in stream.getvalue()  # what is said is no markup


@pytest.mark.parametrize(("columns", "has_bar"), [("60", False), ("120", True)])
def test_how_far_it_is_and_how_long_it_takes_has_room_in_any_terminal(
    columns: str, has_bar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0] * 3)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 10.0))
    stream = Terminal()
    watcher = progress.LiveWatcher(stream)
    watcher.begin(trials=130)
    for kind, done in (
        (VerdictKind.FAIL, Transcript(invocations=())),
        (VerdictKind.NOT_MEASURED, CRASH),
    ):
        for _ in range(10):
            watcher.trial_done(KEY, done, 1.0, kind=kind)
    watcher.end()
    (line,) = [each for each in stream.getvalue().splitlines() if "20/130" in each][-1:]
    assert "10 fail, 10 not measured, 2.0/s" in line
    assert ("\N{BOX DRAWINGS HEAVY HORIZONTAL}" in line) is has_bar


@pytest.mark.parametrize(
    ("kinds", "known", "each_s", "elapsed", "shown"),
    [
        # how trials were scored; no rate before it says something
        ("pass fail pass", 0, 1.0, 1.0, "3/10 in 1.0 s, 2 pass, 1 fail"),
        (
            "pass not_measured",
            0,
            4.0,
            4.0,
            "2/10 in 4.0 s, 1 pass, 1 not measured, 30.0/min, about 16 s left",
        ),
        (
            "pass pass pass pass pass pass",
            0,
            3.0,
            3.0,
            "6/10 in 3.0 s, 6 pass, 2.0/s, about 2.0 s left",
        ),
        # what the journal held came at once: it says nothing of the rate
        (
            "pass pass pass pass pass pass",
            4,
            4.0,
            4.0,
            "6/10 in 4.0 s, 6 pass, 30.0/min, about 8.0 s left",
        ),
        # and no more does the minute that installing the environment took
        ("pass pass", 0, 4.0, 64.0, "2/10 in 1 min 04 s, 2 pass, 30.0/min, about 16 s left"),
        ("pass", 0, 0.5, 64.0, "1/10 in 1 min 04 s, 1 pass"),
    ],
)
def test_how_far_it_is(
    kinds: str,
    known: int,
    each_s: float,
    elapsed: float,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0] * 3)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, elapsed))
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, every_s=1e9)
    watcher.begin(trials=10)
    for number, kind in enumerate(kinds.split()):
        watcher.trial_done(
            KEY, Transcript(invocations=()), each_s, kind=VerdictKind(kind), is_known=number < known
        )
    watcher.end()
    assert stream.getvalue().splitlines()[-1] == shown


def test_a_terminal_is_told_what_it_costs() -> None:
    usage = Usage(prompt_tokens=1_000_000, candidates_tokens=0)
    event = Event(author="a", content=None, usage=usage, model_version="gemini-2.5-flash")
    turn = Invocation(user_content=Content(), final_response=None, events=(event,))
    stream = Terminal()
    watcher = progress.LiveWatcher(stream)
    watcher.begin(trials=3)
    for known in (False, True):  # what the journal held cost nothing this time
        watcher.trial_done(
            KEY,
            Transcript(invocations=(turn,)),
            0.1,
            kind=VerdictKind.FAIL,
            is_known=known,
            judges_usd=0.02,
        )
    watcher.end()
    assert "2 fail, $0.32" in stream.getvalue()


def test_what_it_costs_is_a_share_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what a trial cost that was not known already."""
    usage = Usage(prompt_tokens=1_000_000, candidates_tokens=0)
    event = Event(author="a", content=None, usage=usage, model_version="gemini-2.5-flash")
    turn = Invocation(user_content=Content(), final_response=None, events=(event,))
    clock = iter([0.0] * 3)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 10.0))
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, every_s=1e9)
    watcher.begin(trials=6)
    for is_known in (True, False, False):
        watcher.trial_done(
            KEY, Transcript(invocations=(turn,)), 4.0, kind=VerdictKind.PASS, is_known=is_known
        )
    watcher.end()
    assert stream.getvalue().splitlines()[-1].endswith("about 6.0 s left, $0.60 of about $1.50")
