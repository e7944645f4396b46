"""Progress in a log: few lines, each one line, and every kind of failure once."""

from __future__ import annotations

import io

from evalgate.gate import progress
from evalgate.model import AgentFailure, FailureKind, Transcript, TrialKey

KEY = TrialKey(suite="s", case_id="c\n::error::x")
CRASH = AgentFailure(kind=FailureKind.EXITED, message="exited\n::set-output name=x::y")
HOSTILE = "red\x1b[31m \x1b]0;title\x07 nul\x00 \u202egpj.exe ##[error]x \x1b]8;;http://x\x1b\\link"
TAME = "red nul[U+0000] [U+202E]gpj.exe # #[error]x link"


def test_plain_lines() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=5, done=0)
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


def test_reruns_are_called_so_with_what_they_are_for() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=2, done=0)
    watcher.end()
    watcher.begin(trials=3, done=0, why="to confirm 2 failures")
    watcher.end()
    first, _, second, last = stream.getvalue().splitlines()
    assert (first, second) == ("running 2 trials", "3 reruns to confirm 2 failures")
    assert last.startswith("0/3 reruns in ")


def test_a_line_when_time_has_passed() -> None:
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream, every_s=0.0)
    watcher.begin(trials=2, done=0)
    watcher.trial_done(KEY, Transcript(invocations=()), 0.1)
    assert "1/2 in" in stream.getvalue()


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    assert isinstance(progress.watch(io.StringIO()), progress.PlainWatcher)


def test_what_an_agent_says_as_it_fails_hides_nothing_and_commands_nobody() -> None:
    """Its own words come first on a line where it is the case that is named after a command."""
    stream = io.StringIO()
    watcher = progress.PlainWatcher(stream)
    watcher.begin(trials=1, done=0)
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
    watcher.begin(trials=2, done=0)
    watcher.trial_done(KEY, CRASH, 0.1)
    watcher.say("a word [bold]in[/bold] between")
    watcher.say("\x1b]0;owned\x07 \u202e")
    watcher.end()
    assert "owned" not in stream.getvalue()
    assert "[U+202E]" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()  # it moves the cursor
    assert "1 agent failure" in stream.getvalue()
    assert "a word [bold]in[/bold] between" in stream.getvalue()  # what is said is no markup
