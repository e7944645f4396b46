"""The eval_config.yaml of agents-cli: the metrics that run, and their functions, prompts and
built-in metrics."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from posixpath import basename, dirname, isabs, join, normpath
from typing import Any

from evalgate.errors import Problem
from evalgate.formats import json_source
from evalgate.formats.json_source import Problems, Spot, described
from evalgate.formats.kind import CriteriaReading
from evalgate.model import OPEN, CriterionUse
from evalgate.text import plain, words
from evalgate.values import JsonObject, frozen_dataclass, is_list_of, without

_LONGEST = 1_000_000
"""In characters."""
_VERSION = re.compile(r"_v\d+$")
"""The end of the name of a built-in metric."""
_SOURCE_KEYS = (
    "custom_function",
    "custom_function_file",
    "prompt_template",
    "remote_custom_function",
)
"""Keys of a metric's own code or prompt, of which it needs one."""
_KEYS = (
    *_SOURCE_KEYS,
    "name",
    "threshold",
    "lower_is_better",
    "informational",
    "custom_function_name",
    "judge_model",
    "judge_model_sampling_count",
)
"""What is read of a metric with a body."""

SAME_AS_ADK: Mapping[str, str] = {
    "final_response_match": "final_response_match_v2",
    "safety": "safety_v1",
    "multi_turn_task_success": "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality": "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality": "multi_turn_tool_use_quality_v1",
}
"""Built-in metrics that ADK has as criteria: it calls the same service, or asks the same
question."""

OF_SERVICE = (
    "final_response_quality",
    "final_response_reference_free",
    "general_quality",
    "grounding",
    "hallucination",
    "instruction_following",
    "multi_turn_general_quality",
    "multi_turn_text_quality",
    "text_quality",
    "tool_use_quality",
)
"""Built-in metrics that only Google Cloud's evaluation service has."""

UNMEASURED = re.compile(
    r"exact_match|bleu|rouge\w*|coherence|fluency|groundedness|fulfillment|verbosity"
    r"|(summarization|question_answering)_quality|gecko_\w+"
)
"""Built-in metrics of older versions, or not for agents, that evalgate does not measure."""

SERVICE_METRIC = "agents_cli_service_metric"
"""The criterion that asks the service for any of its metrics."""
PROMPT_METRIC = "agents_cli_prompt_metric"
"""The criterion that asks a judge by the repository's own prompt."""


def parse_eval_config(
    text: str, *, file: str, read: Callable[[str], bytes | Problem] | None = None
) -> CriteriaReading:
    """Read an eval_config.yaml (or .json). A metric without a threshold is compared with the base.

    `read`: reads another file of the repository, for `custom_function_file`."""
    problems = Problems(text, file=file)
    spot = Spot(problems)
    raw = None
    if len(text) > _LONGEST:
        spot.error("file-too-large", f"the file has {len(text):,} characters")
    else:
        raw = json_source.read_yaml(text, problems, hint=_YAML_HINT)
    if not spot.is_broken and not isinstance(raw, dict):
        message = f"expected a mapping with `metrics_to_run`, found {described(raw)}"
        spot.error("not-a-config", message)
    if not isinstance(raw, dict):
        return CriteriaReading(problems=problems.all())
    pool_key = next((key for key in _POOLS if _holds_metrics(raw.get(key))), _POOLS[0])
    pool = _pool(raw.get(pool_key), spot.at(pool_key))
    names = _names(raw.get("metrics_to_run"), spot.at("metrics_to_run"))
    if raw.get("metrics_to_run") in (None, []):
        names = {name: metric_spot for name, (metric_spot, _) in pool.items()}
        if pool and pool_key == _POOLS[0]:
            message = f"`metrics_to_run` names no metric, so all of `{pool_key}` run"
            hint = "agents-cli runs none without `--metrics`: list their names in `metrics_to_run`"
            spot.warning("no-metrics-to-run", message, hint)
    uses: list[CriterionUse] = []
    for name, name_spot in names.items():
        metric_spot, fields = pool.get(name, (name_spot, {}))
        metric = _Metric(
            name=name, spot=metric_spot, fields=fields, pool_names=pool, file=file, read=read
        )
        uses += filter(None, [metric.use()])
    for key in ("criteria", "metrics", "thresholds"):
        if key in raw and key != pool_key:
            hint = "write a metric into `custom_metrics`, with its `threshold` beside its `name`"
            spot.at(key).warning("unused-key", f"`{key}` is not read", hint)
    return CriteriaReading(
        criteria=tuple(uses),
        problems=problems.all(),
        is_compared=True,
        metrics=frozenset(pool),
    )


_POOLS = ("custom_metrics", "metrics", "criteria")
"""Keys with metrics: that of agents-cli, and others that people write."""


def _holds_metrics(raw: Any) -> bool:
    """True for a list of objects or a mapping of names to objects."""
    entries = list(raw.values()) if isinstance(raw, dict) else raw
    return bool(entries) and is_list_of(entries, dict)


_YAML_HINT = "indent the keys of one metric alike, and a block after `|` deeper than its key"
"""The usual fault of a file that is no YAML."""


def _pool(raw: Any, spot: Spot) -> dict[str, tuple[Spot, JsonObject]]:
    """The metrics of `custom_metrics`, or of another key, by name, each with its place. They may be
    a mapping of names."""
    is_mapping = isinstance(raw, dict) and _holds_metrics(raw)
    if raw is not None and not isinstance(raw, list) and not is_mapping:
        spot.wrong_type("a list of metrics", raw)
    pool: dict[str, tuple[Spot, JsonObject]] = {}
    metrics = enumerate(raw) if isinstance(raw, list) else raw.items() if is_mapping else ()
    for step, metric in metrics:
        if not isinstance(metric, dict):
            spot.at(step).wrong_type("an object with a `name`", metric)
            continue
        name = metric.get("name") or metric.get("id") or step  # of a mapping, a name
        if not isinstance(name, str) or not name.strip():
            hint = "write `- name: my_metric`, and the same name in `metrics_to_run`"
            spot.at(step).error("missing-key", "the metric has no `name`", hint)
        else:
            pool[name] = spot.at(step), metric
    return pool


def _names(raw: Any, spot: Spot) -> dict[str, Spot]:
    """The listed names of metrics, each with its place."""
    names: dict[str, Spot] = {}
    if raw is not None and not isinstance(raw, list):
        spot.wrong_type("a list of names", raw)
        return names
    for index, name in enumerate(raw or ()):
        if isinstance(name, str) and name.strip():
            names.setdefault(name, spot.at(index))
        else:
            spot.at(index).wrong_type("the name of a metric", name)
    return names


@frozen_dataclass
class _Metric:
    """Reads one metric of the file. Invalid parts are problems with their places."""

    name: str
    """As `metrics_to_run` has it."""
    spot: Spot
    fields: JsonObject
    """As written; {} if the file has only the name."""
    pool_names: Collection[str]
    """Of all metrics with fields in the file."""
    file: str
    """Repository-relative."""
    read: Callable[[str], bytes | Problem] | None
    """Reads another file of the repository; None: its content is not needed."""

    def use(self) -> CriterionUse | None:
        """The metric as a criterion; None, with a problem, if it is invalid."""
        if self.name not in self.pool_names:  # the file has only its name
            return self._built_in()
        bodies = [key for key in _SOURCE_KEYS if self.fields.get(key) is not None]
        if not bodies:
            return self._in_words()
        body = self.fields[bodies[0]]
        spot = self.spot.at(bodies[0])
        is_text = isinstance(body, str) and bool(body.strip())
        if not is_text:
            spot.wrong_type("a text", body)
        if len(bodies) > 1:
            keys = words.listed_names(bodies)
            message = f"`{self.name}` has {keys}; one is expected"
            self.spot.error("wrong-value", message, "keep one of them")
        if self._report_misspelled() or len(bodies) > 1 or not is_text:
            return None
        if bodies[0] == "prompt_template":
            self._report_spellings(PLACEHOLDER.findall(body), spot)
            options = {"prompt_template": body, **_judge_of(self.fields)}
            return self._use_of(options, metric=PROMPT_METRIC)
        return self._function(spot, body)

    def _in_words(self) -> CriterionUse | None:
        """A metric without a body of agents-cli: a built-in one with parameters, or words."""
        template = _template_of(self.fields)
        if not template or (self.spot.path[0] == _POOLS[0] and _is_built_in(self.name)):
            return self._built_in()
        message = f"`{self.name}` has no `prompt_template` of agents-cli; it is judged by its words"
        hint = "agents-cli itself ignores it: write a `prompt_template` for the judge"
        self.spot.warning("metric-in-words", message, hint)
        options = {"prompt_template": template, "whole_case": True, **_judge_of(self.fields)}
        return self._use_of(options, metric=PROMPT_METRIC)

    def _function(self, spot: Spot, body: str) -> CriterionUse | None:
        """A metric of Python code, from a text, a file or a dotted name; None, with a problem, if
        it is invalid."""
        options: JsonObject = {"takes": "instance"}
        if spot.path[-1] == "custom_function_file":
            code = body if isabs(body) else normpath(join(dirname(self.file), body))
            content = self.read(code) if self.read is not None else b""
            source = plain.decode(content, file=code)
            if isinstance(source, Problem):
                message = f"`{self.name}`: {code} cannot be read: {source.message}"
                hint = f"the path is relative to {dirname(self.file) or 'the root'}"
                spot.error("no-metric-file", message, hint)
                return None
            function = self.fields.get("custom_function_name")
            options |= {"source": source.removeprefix("\ufeff"), "file": code}
            options |= {"function": function} if isinstance(function, str) else {}
        elif re.fullmatch(r"\s*[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\s*", body):  # a dotted name
            return self._use_of(options, code=body.strip())
        else:
            code = f"{self.file}:{self.name}"
            options |= {"source": body, "file": self.file}
        source = str(options["source"])
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(source, code, "exec")
            self._report_spellings(_returned_keys(source), spot)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            # the agent may have a newer Python, which can compile it
            message = f"`{self.name}`: Python cannot compile the function: {error}"
            spot.warning("bad-metric", message, "write Python that defines `evaluate(instance)`")
        if not re.search(r"\bevaluate\b", source) and "function" not in options:
            message = f"`{self.name}` defines no function `evaluate(instance)`"
            hint = 'write `def evaluate(instance): return {"score": 1.0}`'
            spot.error("bad-metric", message, hint)
            return None
        return self._use_of(options, code=code)

    def _report_spellings(self, keys: Iterable[str], spot: Spot) -> None:
        """Report keys of a prompt or a result that are nearly those that have a meaning."""
        for key in dict.fromkeys(keys):
            hint = "" if key in _MEANINGS else words.did_you_mean(key, _MEANINGS)
            if hint:
                spot.warning("bad-metric", f"`{self.name}` has the key `{key}`", hint)

    def _built_in(self) -> CriterionUse | None:
        """A metric of ADK or of the service; None, with a problem, for an unknown name."""
        name = self.name.lower()
        base = _VERSION.sub("", name)
        if base in SAME_AS_ADK:
            options = {} if base != "final_response_match" else _judge_of(self.fields)
            return self._use_of(options, metric=SAME_AS_ADK[base])
        if _is_built_in(name):
            # agents-cli asks for version 1 by a bare name, and for the newest with parameters
            version = 2 if self.fields else 1
            options = {"metric": name if _VERSION.search(name) else f"{base}_v{version}"}
            parameters = self.fields.get("metric_spec_parameters")
            if isinstance(parameters, dict):
                options["parameters"] = parameters
            return self._use_of(options, metric=SERVICE_METRIC)
        known = [*self.pool_names, *SAME_AS_ADK, *OF_SERVICE]
        reason = "is neither in `custom_metrics` nor a metric that can be measured here"
        if self.name in self.pool_names:
            reason = f"has no {words.listed_names(_SOURCE_KEYS[:3])}"
        hint = words.did_you_mean(
            base, known, fallback=f"known metrics: {', '.join(sorted(known))}"
        )
        self.spot.error("unknown-criterion", f"`{self.name}` {reason}", hint)
        return None

    def _use_of(
        self, options: JsonObject, *, metric: str = "", code: str | None = None
    ) -> CriterionUse | None:
        """The criterion with the metric's threshold; None, with a problem, if that is no number."""
        threshold = self.fields.get("threshold")
        if threshold is not None and (
            isinstance(threshold, bool)
            or not isinstance(threshold, int | float)
            or not math.isfinite(threshold)
        ):
            self.spot.at("threshold").wrong_type("a number", threshold)
            return None
        return CriterionUse(
            name=self.name,
            threshold=None if threshold is None else float(threshold),
            options=options,
            lower_is_better=self.fields.get("lower_is_better") is True,
            informational=self.fields.get("informational") is True,
            code=code,
            metric=metric if metric != self.name else "",
            scale=OPEN,
            place=self.spot.place,
        )

    def _report_misspelled(self) -> bool:
        """Report misspelled keys; True if there are any. agents-cli ignores them, but a misspelled
        `threshold` would decide nothing."""
        keys = sorted(str(key) for key in self.fields.keys() - set(_KEYS))
        hints = {key: words.did_you_mean(key, _KEYS) for key in keys}
        for key, hint in hints.items():
            if hint:
                self.spot.at(key).error("unknown-key", f"`{key}` is not a key of a metric", hint)
        return any(hints.values())


PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A key of a case in a `prompt_template`."""
_MEANINGS = (
    "prompt",
    "response",
    "reference",
    "agent_data",
    "eval_case_id",
    "score",
    "explanation",
)
"""The keys of a metric's input that every case has, and of its result."""


def _returned_keys(source: str) -> Iterator[str]:
    """The keys of the dicts that functions in a source return."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            yield from (
                key.value
                for key in node.value.keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )


def _is_built_in(name: str) -> bool:
    """True for a metric of the service in any version, measured here or not."""
    base = _VERSION.sub("", name.lower())
    return base in SAME_AS_ADK or base in OF_SERVICE or bool(UNMEASURED.fullmatch(base))


_WORDS = ("description", "rubric", "criteria", "instructions", "prompt")
"""Keys that describe a metric to a judge."""
_NOT_WORDS = ("threshold", "weight", "name", "id")
"""Keys that a judge need not see."""


def _template_of(metric: JsonObject) -> str:
    """The prompt of a metric in another form than agents-cli's: a text that is called a prompt,
    else the metric as it is written; "" if it has no words."""
    objects = [metric, *(part for part in metric.values() if isinstance(part, dict))]
    for part in objects:
        for key, text in part.items():
            is_prompt = re.fullmatch(r"(?i)(judge_?)?prompt(_?template)?", str(key))
            if is_prompt and isinstance(text, str) and text.strip():
                return text
    if not any(metric.get(key) for key in _WORDS):
        return ""
    fields = without(metric, _NOT_WORDS)
    metric_text = json.dumps(fields, ensure_ascii=False, indent=1, default=str)
    return f"{metric_text}\nWhere no scale is shown, grade from 0 (not met) to 1 (met)."


def _judge_of(metric: JsonObject) -> JsonObject:
    """The judge options of a metric. The service's default is not evalgate's: it is one sample."""
    samples = metric.get("judge_model_sampling_count")
    model = metric.get("judge_model")
    judge: JsonObject = {"num_samples": samples if isinstance(samples, int) and samples > 0 else 1}
    if isinstance(model, str) and model.strip():
        judge["judge_model"] = basename(model)
    return {"judge_model_options": judge}
