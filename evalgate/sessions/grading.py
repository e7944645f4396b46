"""One custom metric graded by a worker, and what its answer means."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from evalgate import words
from evalgate.model import CriterionUse, Evidence, Grade, NotEvaluated, Reason, Score
from evalgate.sessions import messages
from evalgate.sessions.boxes import Phase
from evalgate.sessions.messages import MetricResult
from evalgate.sessions.worker import Worker


def run_metric(
    worker: Worker,
    code: str,
    use: CriterionUse,
    evidence: Evidence,
    *,
    timeout_s: float,
    on_timeout: Callable[[], None],
) -> Grade:
    """Grade the evidence with the function at the dotted path `code`; a worker that fails is a grade that failed."""
    deadline = time.monotonic() + timeout_s
    box = worker.boxes.open(Phase.METRIC)
    try:
        worker.say(messages.metric(box.name, code=code, use=use, evidence=evidence), timeout_s=timeout_s)
        mail = box.mail.get(timeout=max(deadline - time.monotonic(), 0.0))
    except queue.Empty:
        on_timeout()
        message = worker.loss.message if worker.loss else f"it took longer than {words.seconds(timeout_s)}"
        return failed(code, worker.redact(message))
    finally:
        worker.boxes.close(box)
    if isinstance(mail, MetricResult):
        return grade_of(mail, code=code)
    return failed(code, worker.redact(getattr(mail, "message", "")))


def grade_of(result: MetricResult, *, code: str) -> Grade:
    """The grade that a metric's answer stands for; a status without a score is no score."""
    if result.error is not None:
        return failed(code, result.error)
    score = result.finite_score
    if result.status == "not_evaluated" or score is None:
        return NotEvaluated(
            reason=Reason.CRITERION_FAILED,
            message=f"the metric {code} {_why(result)}",
            turns=tuple(result.turns),
        )
    passed = None if result.status is None else result.status == "passed"
    return Score(value=score, turns=tuple(result.turns), passed=passed)


def _why(result: MetricResult) -> str:
    """Why an answer is no score."""
    if result.score is None:
        return "says that it could not evaluate"
    if result.finite_score is None:
        return f"gave {result.score} as its score"
    return f"says that it could not evaluate, but gave a score of {result.score:g}"


def failed(code: str, message: str) -> NotEvaluated:
    """The metric gave no answer."""
    return NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"the metric {code} failed: {message}")
