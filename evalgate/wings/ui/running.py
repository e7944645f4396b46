"""The run that the page started: its process, which reports as JSON lines, and its progress.

The run has its own process (`python -m evalgate.wings.ui.running`), so that it stops as on Ctrl-C
in a terminal, and the page survives its failures."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from evalgate import errors
from evalgate.config import load
from evalgate.config.context import Audience, Watcher
from evalgate.errors import ConfigError, EvalgateError, ExitCode, UnavailableError
from evalgate.gate import prepare, run as gate_run
from evalgate.model import AgentFailure, Outcome, TrialKey, VerdictKind
from evalgate.system.process import Child, ChildStartError, Ended, LineSplitter, LineTooLong
from evalgate.values import Json, JsonObject

LONGEST_LINE = 1_000_000
LINES = 200
STOP_S = 30.0
"""The time that a stopped run has to write its results."""
STOPPED = {"kind": "not_measured", "reason": "", "complete": False}


class Running:
    """At most one run at a time. `serial` grows with each change, `number` with each run."""

    def __init__(self, root: str) -> None:
        self.serial = 0
        self._number = 0
        self._root = root
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._begin()

    def _begin(self) -> None:
        self._splitter = LineSplitter(limit=LONGEST_LINE)
        self._about: JsonObject = {
            "running": False,
            "total": 0,
            "done": 0,
            "why": "",
            "usd": 0.0,
            "error": None,
        }
        self._counts: Counter[str] = Counter()
        self._lines: list[str] = []
        self._trials: list[tuple[str, str, str | None]] = []
        self._started = time.monotonic()

    def start(self, options: Json, *, scored: Sequence[str] | None, reproduce: str) -> None:
        """Start a run with these settings. Raises ConfigError if another run is active,
        UnavailableError."""
        order = {"given": options, "scored": scored, "reproduce": reproduce}
        with self._lock:
            if self._child is not None:
                raise ConfigError("a run is under way", hint="Stop it, or wait for its end.")
            self._begin()
            self._number += 1
            # -P: do not import modules of the repository
            command = [sys.executable, "-P", "-m", __spec__.name]
            try:
                self._child = child = Child(command, cwd=self._root, environment=dict(os.environ))
            except ChildStartError as error:
                raise UnavailableError(f"the run cannot be started: {error}") from error
            self._about["running"] = True
            self.serial += 1
        child.listen(self._read_output, self._note_end)
        child.write(json.dumps(order, default=str).encode() + b"\n", timeout_s=10.0)

    def stop(self) -> None:
        """Stop the run as Ctrl-C does: its results so far are kept, and the next run continues
        it."""
        with self._lock:
            child = self._child
            self._about["stopping"] = child is not None
            self.serial += 1
        if child is not None:
            child.end(grace_s=STOP_S)

    def close(self) -> None:
        """Stop the run and wait for its end."""
        self.stop()
        child = self._child
        if child is not None:
            child.wait(STOP_S + 5.0)

    def snapshot(self, trials_from: int = 0) -> JsonObject:
        """The current state of the run, with its trials from number `trials_from` on."""
        with self._lock:
            return {
                **self._about,
                "serial": self.serial,
                "number": self._number,
                "counts": dict(self._counts),
                "lines": self._lines[-LINES:],
                "seconds": round(time.monotonic() - self._started, 1)
                if self._about["running"]
                else None,
                "trials": self._trials[trials_from:],
                "next": len(self._trials),
            }

    def _read_output(self, chunk: bytes) -> None:
        try:
            for line in self._splitter.feed(chunk):
                with self._lock:
                    self._apply_message(json.loads(line))
                    self.serial += 1
        except (LineTooLong, ValueError):  # only our own process writes there
            self.stop()

    def _apply_message(self, message: JsonObject) -> None:
        progress = self._about
        match message.pop("what"):
            case "begin":
                progress.update(message, done=0)
            case "trial":
                progress["done"] += 1
                progress["usd"] = max(progress["usd"], message["usd"])
                if not message["base"]:
                    self._counts[message["kind"] or "not_measured"] += 1
                    self._trials.append((message["suite"], message["case"], message["kind"]))
                if message["failure"]:
                    self._lines.append(f"{message['case']}: {message['failure']}")
            case "say":
                self._lines.append(message["line"])
            case ending:  # verdict, error
                progress[ending] = message

    def _note_end(self, end: Ended) -> None:
        with self._lock:
            child = self._child
            self._child = None
            # the run was stopped before its verdict
            if self._about.get("stopping") and "verdict" not in self._about:
                self._about["verdict"] = STOPPED
            self._about["running"] = self._about["stopping"] = False
            if "verdict" not in self._about and self._about["error"] is None and child is not None:
                output = child.stderr.text(limit=2000).strip()
                self._about["error"] = {"message": f"the run {end}", "hint": output, "problems": []}
            self.serial += 1


# --- in the process of the run ---


class LineWatcher(Watcher):
    """Writes the events of a run."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def begin(self, *, trials: int, reason: str = "") -> None:
        """See Watcher."""
        self._tell("begin", total=trials, why=reason)

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,  # noqa: ARG002 - the shape of Watcher
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        judges_usd: float = 0.0,
        **_: Any,
    ) -> None:
        """See Watcher."""
        failure = outcome.message if isinstance(outcome, AgentFailure) else ""
        self._tell(
            "trial",
            suite=key.suite,
            case=key.case_id,
            kind=None if kind is None else kind.value,
            base=of_base,
            failure=failure,
            usd=judges_usd,
        )

    def say(self, line: str) -> None:
        """See Watcher."""
        self._tell("say", line=line)


def main() -> int:
    """Run the gate by the order on standard input; return the exit code of `evalgate run`."""
    # other code's output must not mix with our lines
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)

    def write_event(event_name: str, **fields: Any) -> None:
        # one call, so that threads do not mix their lines
        output.write(json.dumps({"what": event_name, **fields}) + "\n")

    try:
        with errors.paths_explained():
            order = json.loads(sys.stdin.readline())
            settings = load.load_settings(order["given"])
            scored = None if order["scored"] is None else frozenset(order["scored"])
            watcher = LineWatcher(write_event)
            context = prepare.make_context(
                settings,
                environ=os.environ,
                audience=Audience(watcher=watcher, reproduce=order["reproduce"]),
                keep=True,
                scored=scored,
            )
            report = gate_run.run(settings, context)
            write_event(
                "verdict",
                kind=report.verdict.kind.value,
                reason=report.verdict.reason,
                complete=report.run.complete,
            )
            return report.exit_code
    except EvalgateError as error:
        problems = [problem.text for problem in error.problems[:50]]
        write_event("error", message=error.text, hint=error.hint, problems=problems)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
