"""Custom metrics in their own process, which can import the modules of the agent's package but does
not run the agent.

An agent's package could otherwise replace the metric that grades it, because its `__init__` runs
before its modules."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import math
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from . import errors, modules, server
from .pipe import Message

STATUSES = {1: "passed", 2: "failed", 3: "not_evaluated", 4: "not_evaluated"}
"""The protocol's words for the numbers of google-adk's EvalStatus."""


class Host(server.Host):
    """See server.Host. It has no sessions."""

    def __init__(self) -> None:
        """Knows nothing of the agent until `load`."""
        self._package = ""
        """The module name of the agent's package."""
        self._packages: dict[str, str] = {}
        """The folders of the agent's package and of its parents, by module name."""
        self._roots: list[str] = []
        """Folders where the repository's imports start."""
        self._metric_modules: set[str] = set()
        """The top names of the modules of metrics, added as metrics are requested."""

    async def load(self, options: Message) -> dict[str, str]:
        """Prepare the imports of the metrics. Raises errors.LoadFailed."""
        root = os.getcwd()
        if options.get("call"):
            home = _home_of_callable(options, root)
        else:
            from .adk import load_environment

            try:
                home = modules.locate(options.get("path") or ".", root)
            except FileNotFoundError as error:
                raise errors.LoadFailed(str(error)) from error
            load_environment(home.own_folder, root)
        self._package = home.name
        self._roots = [*dict.fromkeys((*home.roots, *(options.get("import_roots") or ())))]
        self._packages = _packages_of(home)
        sys.meta_path[:0] = [modules.Finder(self._find), modules.Finder(modules.find_home, home)]
        sys.meta_path.append(modules.Finder(modules.find_agent, home))
        # after the installed packages: a file of the repository cannot take the name of a package
        sys.path.extend(self._roots)
        return {"framework": "metrics"}

    def _find(self, fullname: str) -> ModuleSpec | None:
        """The agent's packages as folders whose `__init__` does not run, and a metric's module in
        the repository first."""
        folder = self._packages.get(fullname)
        if folder is not None:
            spec = ModuleSpec(fullname, None, is_package=True)  # without a loader, nothing runs
            spec.submodule_search_locations = [folder]
            return spec
        if fullname in self._metric_modules and fullname not in sys.stdlib_module_names:
            return PathFinder.find_spec(fullname, self._roots)
        return None

    async def open(self, start: Message, session_tools: Any) -> Any:  # noqa: ARG002 - the shape of Host
        """Raises RuntimeError, because there is no agent."""
        raise RuntimeError("this worker has no agent, only metrics")

    async def metric(self, message: Message) -> Message:
        """Run a custom metric. Its types are google-adk's, which must be installed here."""
        self._metric_modules.add(message["code"].partition(".")[0])
        answer = await run(message, self._package)
        error_text = answer.get("error") or ""
        for name, folder in self._packages.items():
            if "cannot import name" in error_text and f"from '{name}'" in error_text:
                file = os.path.relpath(os.path.join(folder, "__init__.py"))
                reason = f"{file} is not run for a metric, since it loads the agent; import the name from its own module"
                answer["error"] = f"{reason}. {error_text}"
        return answer


def _home_of_callable(options: Message, root: str) -> modules.Home:
    """The package of `module:function`, located as in the agent's worker."""
    name = options["call"].partition(":")[0].partition(".")[0]
    roots = tuple(dict.fromkeys((os.path.abspath(options.get("path") or "."), root)))
    folders = (
        os.path.join(import_root, name)
        for import_root in (*roots, *(options.get("import_roots") or ()))
    )
    folder = next((folder_path for folder_path in folders if os.path.isdir(folder_path)), None)
    return modules.Home(
        name=name,
        file=None,
        folder=folder,
        roots=roots,
        aliases=("agent",) if name != "agent" else (),
    )


def _packages_of(home: modules.Home) -> dict[str, str]:
    """The folders of the agent's package and its parent packages, by name."""
    folder = home.own_folder
    name_parts = home.name.split(".") if home.folder else home.name.split(".")[:-1]
    packages = {}
    while name_parts:
        packages[".".join(name_parts)] = folder
        folder = os.path.dirname(folder)
        name_parts.pop()
    return packages if folder else {}


# --- one metric, called with google-adk's own types as `adk eval` calls it ---


async def run(message: Message, package: str) -> Message:
    """The fields of `metric_result`. An error becomes its `error`, never a score."""
    code = message["code"]
    instance = message.get("instance")
    read_result = _read_evaluation if instance is None else _read_instance
    try:
        if instance is None:
            function = _resolve(code, package)
            arguments = _arguments(message, function)
        else:
            metric = message.get("metric") or {}
            function = _compile(metric, code) if "source" in metric else _resolve(code, package)
            arguments = [instance]
        if inspect.iscoroutinefunction(function):
            return read_result(await function(*arguments), code)
        result = await asyncio.to_thread(errors.call, function, *arguments)
        return read_result(await result if inspect.isawaitable(result) else result, code)
    except BaseException as error:
        return {"score": None, "error": _description(error)}


def _description(error: BaseException) -> str:
    """An error, with its causes and the user's lines that it passed, on one line."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"{os.path.relpath(frame.filename)}:{frame.lineno}"
        for frame in frames
        if errors.is_users(frame.filename)
    ]
    text = ", caused by ".join(map(errors.sentence, errors.errors_of(error)))
    return f"{text} ({', '.join(lines[-errors.FRAMES_KEPT :])})" if lines else text


_NAMESPACES: dict[str, Message] = {}
"""The namespaces of metrics that ran, by their source."""


def _compile(metric: Message, code: str) -> Callable[..., Any]:
    """The `evaluate` function of an agents-cli metric. Its source is in the message, and runs
    once."""
    source = metric["source"]
    if source not in _NAMESPACES:
        file = os.path.abspath(metric["file"])
        folder = os.path.dirname(file)
        if folder not in sys.path:
            sys.path.append(folder)
        is_file = file.endswith(".py")
        # dataclasses and pydantic look for the module of a class by its name
        module = ModuleType(f"custom_metric_{len(_NAMESPACES)}")
        module.__file__ = file
        sys.modules[module.__name__] = module
        exec(compile(source, file if is_file else f"<{code}>", "exec"), module.__dict__)  # noqa: S102 - the repository's own, in the process for it
        _NAMESPACES[source] = module.__dict__
    namespace = _NAMESPACES[source]
    function = namespace.get("evaluate") or namespace.get(metric.get("function", ""))
    if not callable(function):
        raise TypeError(f"{code} defines no function evaluate(instance)")
    return function  # type: ignore[no-any-return]  # callable, as checked


def _read_instance(result: Any, code: str) -> Message:
    """The fields of a result in the forms of agents-cli: a number, {"score", "explanation"}, or an
    object with these attributes."""
    explanation = None
    if isinstance(result, dict) and "score" in result:
        score = result["score"]
        explanation = result.get("explanation")
    elif isinstance(result, (int, float)):
        score = result
    elif hasattr(result, "score"):
        score = result.score
        explanation = getattr(result, "explanation", None) or getattr(result, "error_message", None)
    else:
        raise TypeError(
            f"{code} returned {type(result).__name__}, not a number or {{'score': ...}}"
        )
    if isinstance(score, (bool, str)):
        score = float(score)
    return {
        "score": _number(score, f"the score of {code}"),
        "explanation": "" if explanation is None else str(explanation)[:10_000],
    }


def _resolve(code: str, package: str) -> Callable[..., Any]:
    """The function at a dotted path. `agent.` means the agent's package, as under `adk eval`."""
    module_name, _, name = code.rpartition(".")
    if not module_name:
        raise ValueError(f"{code!r} is not a dotted path (package.module.function)")
    if module_name == "agent" or module_name.startswith("agent."):
        agent_module = package + module_name[len("agent") :]
        module_name = (
            agent_module if importlib.util.find_spec(agent_module) is not None else module_name
        )
    module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if callable(function):
        return function  # type: ignore[no-any-return]  # callable, as checked
    raise AttributeError(f"module {module_name} has no function {name!r}")


def _arguments(message: Message, function: Callable[..., Any]) -> list[Any]:
    """The arguments of a custom metric, as google-adk passes them."""
    from google.adk.evaluation import eval_case

    scenario = message.get("scenario")
    scenario_class = getattr(eval_case, "ConversationScenario", None)
    if scenario is not None and scenario_class is not None:
        scenario = scenario_class.model_validate(scenario)
    expected = message.get("expected")
    arguments = [
        _metric(message["metric"], message["code"]),
        [_invocation(turn) for turn in message.get("actual") or ()],
        None if expected is None else [_invocation(turn) for turn in expected],
        scenario,
    ]
    with suppress(ValueError):  # a function without a signature
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError:  # one from before google-adk's scenarios
            return arguments[:3]
    return arguments


def _metric(wire_metric: Message, code: str) -> Any:
    """google-adk's EvalMetric without a threshold, as ADK passes it: the criterion has it."""
    from google.adk.evaluation import eval_metrics

    criterion = dict(wire_metric.get("criterion") or {})
    if wire_metric.get("threshold") is not None:
        criterion.setdefault("threshold", wire_metric["threshold"])
    fields = {"metric_name": wire_metric.get("metric_name") or code}
    if "threshold" in criterion:
        fields["criterion"] = eval_metrics.BaseCriterion.model_validate(criterion)
    model_fields = eval_metrics.EvalMetric.model_fields
    if model_fields["threshold"].is_required():
        fields["threshold"] = criterion.get("threshold")
    metric = eval_metrics.EvalMetric(**fields)
    metric.threshold = None
    if "custom_function_path" in model_fields:
        metric.custom_function_path = code
    return metric


def _invocation(turn: Message) -> Any:
    """google-adk's Invocation. An older version gets only the keys that it knows, without events
    that lack a content."""
    from google.adk.evaluation import eval_case
    from pydantic import ValidationError

    try:
        return eval_case.Invocation.model_validate(turn)
    except ValidationError:
        fields = _supported_fields(turn, eval_case.Invocation)
        steps = fields.get("intermediate_data")
        if isinstance(steps, dict) and hasattr(eval_case, "InvocationEvent"):
            content_events = [
                event for event in steps.get("invocation_events") or () if event.get("content")
            ]
            events = [
                _supported_fields(event, eval_case.InvocationEvent) for event in content_events
            ]
            fields["intermediate_data"] = (
                {**steps, "invocation_events": events} if "invocation_events" in steps else steps
            )
        if fields == turn:
            raise
        return eval_case.Invocation.model_validate(fields)


def _supported_fields(fields: Message, model_class: Any) -> Message:
    """The fields that this version of google-adk's model has."""
    return {key: value for key, value in fields.items() if key in model_class.model_fields}


def _read_evaluation(result: Any, code: str) -> Message:
    """The fields of google-adk's EvaluationResult. Raises TypeError, ValueError."""
    if not hasattr(result, "overall_score") or not hasattr(result, "overall_eval_status"):
        raise TypeError(
            f"{code} returned {type(result).__name__} where google-adk expects an EvaluationResult"
        )
    score = _number(result.overall_score, f"overall_score of {code}")
    status_number = getattr(result.overall_eval_status, "value", result.overall_eval_status)
    status = STATUSES.get(status_number) if isinstance(status_number, int) else None
    if status is None:
        raise TypeError(f"{code} returned {result.overall_eval_status!r} as overall_eval_status")
    if score is None and status in ("passed", "failed"):
        raise ValueError(f"{code} returned {status}, but no overall_score")
    # google-adk's default is "not evaluated", which a metric that has a score does not mean
    if score is not None and "overall_eval_status" not in getattr(
        result, "model_fields_set", vars(result)
    ):
        status = None
    turn_results = getattr(result, "per_invocation_results", None) or ()
    turns = [
        _number(getattr(turn, "score", None), f"a turn's score of {code}") for turn in turn_results
    ]
    return {"score": score, "status": status, "turns": turns}


def _number(value: Any, subject: str) -> float | None:
    """A finite number, or None. Raises TypeError, ValueError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{subject} is {value!r}, not a number")
    if not math.isfinite(value):
        raise ValueError(f"{subject} is {value!r}")
    return float(value)
