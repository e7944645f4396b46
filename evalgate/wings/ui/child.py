"""`python -m evalgate.wings.ui.child`: one run of the gate for the page, reported as JSON lines.

The run has its own process, so that it stops as on Ctrl-C in a terminal, and the page survives its
failures."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from evalgate import errors
from evalgate.config import load
from evalgate.errors import EvalgateError, ExitCode
from evalgate.gate import prepare, run as gate_run
from evalgate.model import AgentFailure, Outcome, TrialKey, VerdictKind

Tell = Callable[..., None]


class LineWatcher:
    """Writes the events of a run (config.context.Watcher)."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher."""
        self._tell("begin", trials=trials, done=done, why=reason)

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
        fields = {
            "suite": key.suite,
            "case": key.case_id,
            "kind": None if kind is None else kind.value,
        }
        self._tell("trial", **fields, base=of_base, failure=failure, usd=judges_usd)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._tell("say", line=line)

    def end(self) -> None:
        """See Watcher."""


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
            return _run(json.loads(sys.stdin.readline()), write_event)
    except EvalgateError as error:
        problems = [problem.text for problem in error.problems[:50]]
        write_event("error", message=error.text, hint=error.hint, problems=problems)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _run(order: dict[str, Any], write_event: Tell) -> int:
    settings = load.load_settings(order["given"])
    scored = None if order["scored"] is None else frozenset(order["scored"])
    context = prepare.make_context(
        settings,
        watcher=LineWatcher(write_event),
        keep=True,
        scored=scored,
        reproduce=order["reproduce"],
    )
    report = gate_run.run(settings, context)
    write_event(
        "done",
        kind=report.verdict.kind.value,
        reason=report.verdict.reason,
        complete=report.run.complete,
    )
    return report.exit_code


def _interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
