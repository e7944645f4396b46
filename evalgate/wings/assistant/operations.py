"""Runs that an assistant starts: they run one after another in the background, and report progress
and an outcome."""

from __future__ import annotations

import json
import os
import queue
import threading
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalgate.config import load
from evalgate.config.context import Audience, Watcher
from evalgate.errors import EvalgateError, ExitCode
from evalgate.gate import prepare, run as gate_run
from evalgate.model import Outcome, Report, TrialKey
from evalgate.results import kept
from evalgate.system import redact
from evalgate.values import JsonObject, with_keys
from evalgate.wings.ces.edit import CODES, Refused, refusal
from .resources import ServerResources

MOST_RUNS = 100
"""The most runs of one evaluation in one operation."""
MOST_WAITING = 100
"""The most operations that are not over."""
_CODES = {
    ExitCode.CONFIG: "FAILED_PRECONDITION",
    ExitCode.NOT_MEASURED: "UNAVAILABLE",
    ExitCode.NOTHING_TO_DO: "NOT_FOUND",
}


class _Stopped(Exception):  # noqa: N818 - the end of a run, not an error
    """Somebody cancelled the run."""


class Operation(Watcher):
    """A run of files and cases (`paths`), some of which are the evaluations `names`. `done` and
    `total` count trials; `outcome` is set at the end, a `response` or an `error`, and then
    `over`."""

    def __init__(self, paths: Iterable[str], names: Iterable[str], runs: int) -> None:
        self.name = f"operations/run-{uuid.uuid4().hex[:12]}"
        self.paths = list(paths)
        self.runs = runs
        self.state = "QUEUED"
        self.total = 0
        self.done = 0
        self.lines: list[str] = []
        self.over = threading.Event()
        self.cancelled = threading.Event()
        self._names = list(names)
        self._created_at = _timestamp()
        self._ended_at: JsonObject = {}
        self._outcome: JsonObject = {}

    def close(self, state: str, **outcome: JsonObject) -> None:
        """End it with a `response` or an `error`."""
        self.state = state
        self._outcome = outcome
        self._ended_at = {"endTime": _timestamp()}
        self.over.set()

    def json(self) -> JsonObject:
        """The operation as google.longrunning.Operation."""
        metadata = {
            "state": self.state,
            "evaluations": self._names or self.paths,
            "createTime": self._created_at,
            "cancelRequested": self.cancelled.is_set(),
            "progress": {"completedCount": self.done, "totalCount": self.total},
            **self._ended_at,
        }
        return {
            "name": self.name,
            "done": self.over.is_set(),
            "metadata": metadata,
            **self._outcome,
        }

    def begin(self, *, trials: int, reason: str = "") -> None:  # noqa: ARG002 - the shape of Watcher
        """See Watcher; reruns come on top."""
        self.total += trials
        self._check_stopped()

    def trial_done(self, key: TrialKey, outcome: Outcome, seconds: float, **more: Any) -> None:  # noqa: ARG002 - as above
        """See Watcher."""
        self.done += 1
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self.cancelled.is_set():
            raise _Stopped

    def say(self, line: str) -> None:
        """See Watcher."""
        self.lines = [*self.lines[-19:], line[:500]]


class Operations:
    """The runs of this process, below a root."""

    def __init__(self, resources: ServerResources) -> None:
        self._resources = resources
        self._operations: dict[str, Operation] = {}
        self._queue: queue.SimpleQueue[Operation] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, paths: Sequence[str], *, names: Iterable[str] = (), runs: int = 1) -> Operation:
        """Run these files or cases (`file.evalset.json:case`). `names`: the evaluations among them.
        Raises Refused."""
        if not paths:
            message = (
                "name what is to be run: `evaluations`, `evaluationDataset`, `tags` or `evalCases`"
            )
            raise Refused("INVALID_ARGUMENT", message, [("evaluations", "missing")])
        if not 1 <= runs <= MOST_RUNS:
            raise refusal(("runCount", f"1 to {MOST_RUNS}"))
        unfinished = [run for run in self._operations.values() if not run.over.is_set()]
        if len(unfinished) >= MOST_WAITING:
            raise Refused("RESOURCE_EXHAUSTED", f"{MOST_WAITING} runs are waiting already")
        operation = Operation(paths, names, runs)
        self._operations[operation.name] = operation
        self._queue.put(operation)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        return operation

    def get(self, name: str) -> Operation:
        """An operation by its name. Raises Refused."""
        if name not in self._operations:
            raise Refused(
                "NOT_FOUND", f"no operation {name[:100]!r}: they last as long as the server"
            )
        return self._operations[name]

    def cancel(self, name: str) -> Operation:
        """End an operation: at once if it waits, otherwise after the current trials. Raises
        Refused."""
        operation = self.get(name)
        operation.cancelled.set()
        return operation

    def _work(self) -> None:
        while True:
            operation = self._queue.get()
            operation.state = "RUNNING"
            try:
                operation.begin(trials=0)
                operation.close("COMPLETED", response=self._run(operation))
            except _Stopped:
                error = _error("CANCELLED", "the run was cancelled")
                operation.close("CANCELLED", error=error)
            except EvalgateError as failure:
                texts = (failure.message, failure.hint, *map(str, failure.problems[:5]))
                status = _CODES.get(failure.exit_code, "INTERNAL")
                operation.close("ERROR", error=_error(status, " ".join(filter(None, texts))))
            except Exception as failure:  # noqa: BLE001 - the operation must say so, whatever it is
                message = f"{type(failure).__name__}: {failure}"
                operation.close("ERROR", error=_error("INTERNAL", message))

    def _run(self, operation: Operation) -> JsonObject:
        output = Path(kept.FOLDER) / "operations" / operation.name.rpartition("/")[2]
        settings = load.load_settings(
            {
                "root": str(self._resources.root),
                "paths": operation.paths,
                "output": str(output),
                "runs": str(operation.runs),
                "baseline": "none",
            }
        )
        response: JsonObject = {}
        audience = Audience(
            watcher=operation, present=lambda report: response.update(response_of(report))
        )
        context = prepare.make_context(settings, audience=audience)
        report = gate_run.run(settings, context)
        if path := report.files.get("ces"):
            document = self._resources.keep(json.loads(Path(path).read_text("utf-8")))
            response["evaluationRun"] = document["evaluationRuns"][-1]["name"]
            response["evaluationResults"] = [
                with_keys(result, ("name", "evaluationStatus"))
                for result in document["evaluationResults"]
            ]
        return {
            **response,
            "report": report.files.get("html", ""),
            "results": report.files.get("results", ""),
        }


def _error(status: str, message: str) -> JsonObject:
    """The error as google.rpc.Status, without secrets."""
    text = redact.redactor(os.environ)(message)[:2000]
    return {"code": CODES[status], "status": status, "message": text}


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def response_of(report: Report) -> JsonObject:
    """The response of a run: the verdict, and each case with its criteria."""
    cases = []
    for case in report.verdict.cases:
        criteria = []
        for criterion in case.criteria:
            fields = {
                "name": criterion.name,
                "score": criterion.value,
                "threshold": criterion.threshold,
                "message": str(criterion.message),
                "outcome": criterion.kind.value if criterion.kind else None,
            }
            criteria.append({key: fields[key] for key in fields if fields[key] not in (None, "")})
        summary = {"file": case.suite, "evalId": case.case_id, "outcome": case.kind.value}
        reason = {"reason": str(case.reason)} if case.reason else {}
        cases.append({**summary, **reason, "criteria": criteria})
    return {
        "verdict": report.verdict.kind.value,
        "reason": str(report.verdict.reason),
        "cases": cases,
    }
