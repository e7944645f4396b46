"""Metrics of agents-cli without code: a judge answers the repository's own prompt, or Google
Cloud's evaluation service measures a metric that only it has."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field

from evalgate.formats import agents_cli
from evalgate.formats.agents_cli_config import PROMPT_METRIC, SERVICE_METRIC, UNMEASURED
from evalgate.judges import prompting
from evalgate.model import (
    OPEN,
    Grade,
    Need,
    Reason,
    Scale,
    TrialView,
    not_evaluated,
)
from evalgate.values import member
from . import judged, vertex_service
from .base import CriterionSpec
from .judged import Inquiry, JudgedOptions, VertexOptions

VERSION = "2"
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_SCORES = {
    **{str(number): True for number in range(101)},
    **{f"{number / 10:g}": True for number in range(1, 10)},
    **{f"{number}.5": True for number in range(1, 10)},
}

_RULES = """\
You grade an AI agent's run by the instructions of its developers, which follow. Where they show a form for the reply,
keep to the form below instead; their scale counts.

"""

_REPLY = """\
Reply with one JSON object and nothing else: first the reasons, in a sentence or two, then the score by the
developers' scale as a word of digits, then the code.
{"rationale": "...", "verdict": "4", "code": "..."}
The verdict is a whole number from 0 to 100, one decimal from 0.1 to 0.9 on a scale up to 1, or a half such as 3.5."""


class PromptOptions(JudgedOptions):
    """The judge, and the prompt with placeholders such as `{prompt}`, `{response}` and other keys
    of the case. `whole_case`: a prompt without placeholders is answered with all keys."""

    prompt_template: str = "Grade the response from 1 to 5. {prompt} {response}"
    whole_case: bool = False


class ServiceOptions(VertexOptions):
    """The service's name of the metric, and its parameters."""

    metric: str = "general_quality_v1"
    parameters: dict[str, Any] = Field(default_factory=dict)


def grade_prompt(view: TrialView, *, ask: Inquiry) -> Grade:
    """The mean of the samples' scores of the whole run. If the case lacks a key of the prompt,
    there is no score."""
    options = ask.options
    assert isinstance(options, PromptOptions)
    template = options.prompt_template
    instance = agents_cli.instance_json(view, needs_prompt=True)
    names = list(dict.fromkeys(_FIELD.findall(template)))
    names = names or list(instance if options.whole_case else ())
    missing_names = [name for name in names if name not in instance]
    if missing_names:
        return not_evaluated(Reason.REFERENCE_MISSING, "prompt_key_missing", missing_names[0])
    question = prompting.build_question(
        rules=_RULES + _FIELD.sub(r"(see the piece \1)", template),
        reply=_REPLY,
        pieces={name: _text(instance[name]) for name in names},
        task="Which score do the developers' instructions give?",
        version=VERSION,
        labels=_SCORES,
    )
    result = ask.panel.vote(judged.sampled(ask, question, exhaustive=True))
    turn = judged.judged_turn(result, turn=None, mean=statistics.fmean)
    return judged.conclude_conversation(turn, view.actual, nothing=vertex_service.nothing())


def _text(field: Any) -> str:
    """A message as its texts, any other field as JSON, as agents-cli fills a prompt."""
    content = field.get("response", field) if isinstance(field, Mapping) else field
    parts = member(content, "parts")
    if isinstance(parts, list):
        return "\n".join(
            str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part
        )
    return field if isinstance(field, str) else prompting.as_json(field)


def grade_by_service(view: TrialView, *, ask: Inquiry) -> Grade:
    """The service's score of the conversation, or of the answer to the last prompt."""
    options = ask.options
    assert isinstance(options, ServiceOptions)
    metric = options.metric
    if UNMEASURED.match(metric):
        return not_evaluated(Reason.NOT_APPLICABLE, "metric_unknown", metric)
    instance = agents_cli.service_instance(view)
    if metric.startswith("multi_turn"):  # the prompt is a list of turns, which may be empty
        instance.setdefault("prompt", {"contents": {"contents": []}})
    body = vertex_service.ask_metric(metric, instance, options.parameters)
    return vertex_service.grade_conversation(ask, body, metric, view.actual)


SPECS = (
    CriterionSpec(
        name=PROMPT_METRIC,
        summary="score by a `prompt_template` of an eval_config.yaml",
        options=PromptOptions,
        build=partial(judged.with_judge, rule=grade_prompt),
        scale=OPEN,
        needs=frozenset({Need.JUDGE}),
        is_beyond_adk=True,
    ),
    CriterionSpec(
        name=SERVICE_METRIC,
        summary="metric of Google Cloud's evaluation service that ADK does not have",
        options=ServiceOptions,
        build=partial(judged.with_judge, rule=grade_by_service),
        scale=Scale(),
        needs=frozenset({Need.VERTEX}),
        is_beyond_adk=True,
    ),
)
