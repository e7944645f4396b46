"""Custom metrics of the agent's repository, called with google-adk's own types as `adk eval` calls them."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import math
from collections.abc import Callable
from typing import Any

from . import errors

Message = dict[str, Any]
STATUSES = {1: "passed", 2: "failed", 3: "not_evaluated", 4: "not_evaluated"}


async def run(message: Message, package: str) -> Message:
    """The fields of `metric_result`; whatever goes wrong is its `error`, never a score."""
    code = str(message.get("code", ""))
    try:
        function = _resolve(code, package)
        arguments = _arguments(message, function)
        if inspect.iscoroutinefunction(function):
            return _read(await function(*arguments), code)
        result = await asyncio.to_thread(function, *arguments)
        return _read(await result if inspect.isawaitable(result) else result, code)
    except BaseException as error:
        return {"score": None, "error": f"{errors.sentence(error)}\n{errors.own_traceback(error)}"}


def _resolve(code: str, package: str) -> Callable[..., Any]:
    """The function at a dotted path; `agent.` means the agent's package, as it does under `adk eval`."""
    module_name, _, name = code.rpartition(".")
    if not module_name:
        raise ValueError(f"{code!r} is not a dotted path (package.module.function)")
    if module_name == "agent" or module_name.startswith("agent."):
        inside = package + module_name[len("agent") :]
        module_name = inside if importlib.util.find_spec(inside) is not None else module_name
    module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if callable(function):
        return function  # type: ignore[no-any-return]  # callable, as checked
    raise AttributeError(f"module {module_name} has no function {name!r}")


def _arguments(message: Message, function: Callable[..., Any]) -> list[Any]:
    from google.adk.evaluation import eval_case

    scenario = message.get("scenario")
    kind = getattr(eval_case, "ConversationScenario", None)
    if scenario is not None and kind is not None:
        scenario = kind.model_validate(scenario)
    expected = message.get("expected")
    arguments = [
        _metric(message.get("metric") or {}, str(message.get("code", ""))),
        [_invocation(turn) for turn in message.get("actual") or ()],
        None if expected is None else [_invocation(turn) for turn in expected],
        scenario,
    ]
    return arguments[: _args_count(function)]


def _args_count(function: Callable[..., Any]) -> int:
    """Functions written before google-adk had scenarios take three arguments, later ones four."""
    try:
        inspect.signature(function).bind(None, None, None, None)
    except TypeError:
        return 3
    except ValueError:
        return 4
    return 4


def _metric(told: Message, code: str) -> Any:
    """ADK hands over the metric without a threshold: it is on the criterion."""
    from google.adk.evaluation import eval_metrics

    criterion = dict(told.get("criterion") or {})
    if told.get("threshold") is not None:
        criterion.setdefault("threshold", told["threshold"])
    fields: Message = {"metric_name": told.get("metric_name") or code}
    if "threshold" in criterion:
        fields["criterion"] = eval_metrics.BaseCriterion.model_validate(criterion)
    known = eval_metrics.EvalMetric.model_fields
    if known["threshold"].is_required():
        fields["threshold"] = criterion.get("threshold")
    metric = eval_metrics.EvalMetric(**fields)
    metric.threshold = None
    if "custom_function_path" in known:
        metric.custom_function_path = code
    return metric


def _invocation(turn: Message) -> Any:
    """google-adk's Invocation; a version that lacks newer keys is given the ones it knows, and then no events without a
    content, which have nothing else."""
    from google.adk.evaluation import eval_case
    from pydantic import ValidationError

    try:
        return eval_case.Invocation.model_validate(turn)
    except ValidationError:
        known = _known(turn, eval_case.Invocation)
        steps = known.get("intermediate_data")
        if isinstance(steps, dict) and hasattr(eval_case, "InvocationEvent"):
            told = [event for event in steps.get("invocation_events") or () if event.get("content")]
            events = [_known(event, eval_case.InvocationEvent) for event in told]
            known["intermediate_data"] = (
                {**steps, "invocation_events": events} if "invocation_events" in steps else steps
            )
        if known == turn:
            raise
        return eval_case.Invocation.model_validate(known)


def _known(fields: Message, kind: Any) -> Message:
    return {key: value for key, value in fields.items() if key in kind.model_fields}


def _read(result: Any, code: str) -> Message:
    if not hasattr(result, "overall_score") or not hasattr(result, "overall_eval_status"):
        raise TypeError(f"{code} returned {type(result).__name__} where google-adk expects an EvaluationResult")
    score = _number(result.overall_score, f"overall_score of {code}")
    number = getattr(result.overall_eval_status, "value", result.overall_eval_status)
    status = STATUSES.get(number) if isinstance(number, int) else None
    if status is None:
        raise TypeError(f"{code} returned {result.overall_eval_status!r} as overall_eval_status")
    if score is None and status in ("passed", "failed"):
        raise ValueError(f"{code} returned {status}, but no overall_score")
    each = getattr(result, "per_invocation_results", None) or ()
    turns = [_number(getattr(turn, "score", None), f"a turn's score of {code}") for turn in each]
    return {"score": score, "status": status, "turns": turns}


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {value!r}, not a number")
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value!r}")
    return float(value)
