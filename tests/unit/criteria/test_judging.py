"""What is missing to ask a judge: said by the judge itself, at the criterion's line."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from builders import build

from evalgate import criteria
from evalgate.config.gate_file import JudgeRule
from evalgate.criteria import CRITERIA, judges
from evalgate.errors import Place, Severity
from evalgate.model import CriterionUse, Suite

MATCH, SAFETY, WORDS = "final_response_match_v2", "safety_v1", "response_match_score"
PLACE = Place(file="test_config.json", line=4, column=5)
KEY = {"GEMINI_API_KEY": "k"}
CLOUD = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}


def use(name: str, **rest: Any) -> CriterionUse:
    return criteria.with_facts(CriterionUse(name=name, threshold=0.5, **rest), CRITERIA[name])


def suite(*names: str, place: Place | None = PLACE, **options: Any) -> Suite:
    uses = tuple(
        criteria.with_facts(CriterionUse(name=name, threshold=0.5, options=options, place=place))
        for name in names
    )
    return dataclasses.replace(build.suite(build.case("c")), criteria=uses)


def missing(made: Suite, environ: dict[str, str], defaults: JudgeRule | None = None) -> list[str]:
    defaults = defaults or JudgeRule()
    problems = judges.missing(judges.settle_suites([made], defaults), defaults, environ)
    assert {(problem.severity, problem.code) for problem in problems} <= {
        (Severity.ERROR, "credentials-missing")
    }
    assert all("`skip-judged`" in problem.hint and "replay" in problem.hint for problem in problems)
    return [problem.message for problem in problems]


def asks(model: str) -> dict[str, Any]:
    return {"judge_model_options": {"judge_model": model}}


@pytest.mark.parametrize(
    ("criterion", "options", "environ", "set_what"),
    [
        (WORDS, {}, {}, ""),  # asks nobody
        (MATCH, {}, {}, "GOOGLE_API_KEY or GEMINI_API_KEY"),
        (MATCH, {}, KEY, ""),
        # set, and empty: a secret that a fork does not see
        (MATCH, {}, {"GEMINI_API_KEY": " "}, "GOOGLE_API_KEY"),
        # a project is no key while nobody says that Vertex is meant
        (MATCH, {}, CLOUD, "GOOGLE_API_KEY"),
        (MATCH, {}, {**CLOUD, "GOOGLE_GENAI_USE_VERTEXAI": "true"}, ""),
        (MATCH, {}, {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}, ""),  # a server of one's own
        (MATCH, asks("openai/gpt-4.1"), {"OPENAI_API_KEY": "k"}, ""),
        (MATCH, asks("openai/gpt-4.1"), KEY, "OPENAI_API_KEY"),
        (MATCH, asks("ollama/qwen3"), {}, ""),  # local
        (MATCH, asks("Qwen/Qwen3"), KEY, "unknown judge model"),
        (MATCH, asks("vertex_ai/gemini-2.5-pro"), KEY, ""),  # with a key, in Vertex's express mode
        (MATCH, asks("vertex_ai/gemini-2.5-pro"), {}, "GOOGLE_CLOUD_PROJECT"),
        (SAFETY, {}, KEY, ""),
        (SAFETY, {}, {}, "GOOGLE_CLOUD_PROJECT"),
        (SAFETY, {}, CLOUD, ""),
        (SAFETY, {"judge": "llm"}, KEY, ""),  # a model stands in
        (SAFETY, {"judge": "llm"}, {}, "GEMINI_API_KEY"),
    ],
)
def test_the_judge_that_would_be_asked_says_what_it_lacks(
    criterion: str, options: dict[str, Any], environ: dict[str, str], set_what: str
) -> None:
    found = missing(suite(criterion, **options), environ)
    assert [(criterion in message, set_what in message) for message in found] == (
        [(True, True)] if set_what else []
    )


@pytest.mark.parametrize(
    ("defaults", "environ", "set_what"),
    [
        # told when it is opened, or nothing lacks
        (JudgeRule(client="replay", replay="/r.jsonl"), {}, None),
        (JudgeRule(client="openai", base_url="http://127.0.0.1:1/v1"), {}, ""),
        (
            JudgeRule(client="openai", base_url="http://127.0.0.1:1/v1", api_key_env="MINE"),
            {},
            "MINE",
        ),
        # the usual variable is not the one that is named
        (JudgeRule(api_key_env="MINE"), KEY, "MINE"),
        (JudgeRule(api_key_env="MINE"), {"MINE": "k"}, ""),
    ],
)
def test_what_the_gate_file_says_counts(
    defaults: JudgeRule, environ: dict[str, str], set_what: str | None
) -> None:
    found = missing(suite(MATCH), environ, defaults)
    if set_what is None:
        assert not any("_API_KEY" in message for message in found)
    else:
        assert [set_what in message for message in found] == ([True] if set_what else [])


def test_each_criterion_is_told_once_at_its_line() -> None:
    settled = judges.settle_suites([suite(MATCH, SAFETY), suite(MATCH, SAFETY)], JudgeRule())
    found = judges.missing(settled, JudgeRule(), {})
    assert [(problem.place, problem.message.split("`")[1]) for problem in found] == [
        (PLACE, MATCH),
        (PLACE, SAFETY),
    ]
    (nowhere,) = judges.missing(
        judges.settle_suites([suite(MATCH, place=None)], JudgeRule()), JudgeRule(), {}
    )
    assert nowhere.place == Place(file=build.SUITE)


def test_a_metric_of_google_cloud_without_a_threshold_does_not_stop_a_run() -> None:
    made = suite(SAFETY, MATCH)
    compared = tuple(dataclasses.replace(use, threshold=None) for use in made.criteria)
    settled = judges.settle_suites([dataclasses.replace(made, criteria=compared)], JudgeRule())
    found = judges.missing(settled, JudgeRule(), {})
    assert [problem.severity for problem in found] == [Severity.WARNING, Severity.ERROR]


def test_options_that_cannot_be_read_hide_no_other_criterion() -> None:
    broken = use(MATCH, options={"judge_model_options": {"num_samples": "many"}})
    made = dataclasses.replace(suite(SAFETY), criteria=(broken, *suite(SAFETY).criteria))
    (settled,) = judges.settle_suites([made], JudgeRule())
    assert settled.criteria[0] is broken
    assert [message.split("`")[1] for message in missing(made, {})] == [SAFETY]
