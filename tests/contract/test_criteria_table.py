"""Every criterion stands in the table, on its page, and keeps to the shape of the family."""

import math
from pathlib import Path
from typing import Any

import pytest
from builders import judging, template_words
from pydantic import BaseModel, ValidationError

from evalgate import criteria
from evalgate.agents.base import Agent
from evalgate.criteria.base import CriterionServices, CriterionSpec
from evalgate.discovery import criteria as discovery_criteria
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Score,
    Text,
    TrialView,
)
from evalgate.model.deviations import under

ROOT = Path(__file__).parents[2]
SPECS = [*criteria.CRITERIA.values(), criteria.CUSTOM]
NAMES = [spec.name for spec in SPECS]
SHARED = {"__init__", "base", "judged", "judges", "rubrics"}
"""What files of the family share."""


def test_every_file_of_the_family_stands_in_the_table() -> None:
    files = {path.stem for path in (ROOT / "evalgate/criteria").glob("*.py")} - SHARED
    rules = [judging.rule_of(spec.build) for spec in SPECS]
    rooms = [rule.__module__.rpartition(".") for rule in rules]
    assert {name for room, _, name in rooms if room == "evalgate.criteria"} == files


def test_every_criterion_has_its_page_and_every_page_its_criterion() -> None:
    pages = {path.stem for path in (ROOT / "docs/criteria").glob("*.md")} - {"README"}
    assert pages == set(NAMES)
    index = (ROOT / "docs/criteria/README.md").read_text("utf-8")
    for spec in SPECS:
        assert f"[{spec.name}]({spec.name}.md)" in index
        assert spec.summary in index


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_a_page_names_every_option(spec: CriterionSpec) -> None:
    page = (ROOT / f"docs/criteria/{spec.name}.md").read_text("utf-8")
    for option in spec.options.model_fields:
        assert f"`{option}`" in page


def test_names_are_those_of_the_rows_and_of_adk() -> None:
    assert all(name == spec.name for name, spec in criteria.CRITERIA.items())
    adks = {name for name, spec in criteria.CRITERIA.items() if not spec.is_beyond_adk}
    assert len(adks) == 17  # the metrics that google-adk 2.13 registers
    assert tuple(name for name, spec in criteria.CRITERIA.items() if spec.informational) == (
        "tool_call_count_v1",
        "inference_call_count_v1",
        "token_usage_v1",
        "invocation_duration_v1",
    )


def test_picking() -> None:
    assert criteria.pick("response_match_score") is criteria.CRITERIA["response_match_score"]
    assert criteria.pick("mine", "my.metric") is criteria.CUSTOM
    assert criteria.pick("response_match_score", "my.metric") is criteria.CUSTOM
    assert criteria.pick("custom_metric") is None
    assert criteria.pick("response_match_scor") is None


def _keys(model: type[BaseModel]) -> list[str]:
    return [name for name in model.model_fields if len(name) > 3]


@pytest.mark.parametrize("spec", criteria.CRITERIA.values(), ids=criteria.CRITERIA)
def test_an_unknown_option_is_refused_with_the_nearest_name(spec: CriterionSpec) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        spec.options.model_validate({"no_such_option": 1})
    for option in _keys(spec.options):
        options = {option[:-1] + "x" + option[-1]: None}
        use = CriterionUse(name=spec.name, threshold=spec.scale.highest or 0.5, options=options)
        _, (problem,) = discovery_criteria.check([use])
        assert problem.hint == f"Did you mean `{option}`?"


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_without_options_a_criterion_grades_and_stays_on_its_scale(spec: CriterionSpec) -> None:
    use = CriterionUse(
        name=spec.name, threshold=None if spec.informational else 0.5, code=_code(spec)
    )
    for evidence in _evidences():
        for adk_compat in (False, True):
            grade = criteria.build(use, CriterionServices(deviations=under(adk_compat=adk_compat)))(
                evidence
            )
            assert isinstance(grade, Score | NotEvaluated)
            assert len(grade.turns) in (0, len(evidence.actual))
            for value in [each for each in grade.turns if each is not None]:
                assert _on_scale(value, spec)
            if isinstance(grade, Score):
                assert _on_scale(grade.value, spec)
            else:
                assert grade.message


def test_every_word_of_a_grade_is_a_templates() -> None:
    """With the templates' words in full-width letters, the Latin ones that are left are names."""
    judge = {
        "skipped": None,
        "unreadable": judging.panel(judging.ScriptedJudge(lambda _: "?")),
        "unavailable": judging.panel(judging.ScriptedJudge(lambda _: "<timeout>")),
    }
    words: dict[str, str] = {}
    with template_words.marked():
        for spec in SPECS:
            use = CriterionUse(name=spec.name, threshold=0.5, code=_code(spec))
            for services in (
                CriterionServices(judge=panel, run_metric=run_metric)
                for panel in judge.values()
                for run_metric in (None, Agent.run_metric.__get__(Agent))
            ):
                criterion = criteria.build(use, services)
                for evidence in _evidences():
                    words |= dict.fromkeys(
                        template_words.latin("\n".join(_texts(criterion(evidence)))), spec.name
                    )
    names = template_words.latin(" ".join([*NAMES, "a.metric", "timeout happened", "stand-in"]))
    assert {word: name for word, name in words.items() if word not in names} == {}


def _texts(grade: Grade) -> list[str]:
    """All that readers see of a grade, besides labels."""
    texts = [grade.message if isinstance(grade, NotEvaluated) else grade.lacking]
    for finding in grade.findings:
        texts += [finding.text, finding.subject, *(opinion.text for opinion in finding.opinions)]
    return [str(text) for text in texts]


def _code(spec: CriterionSpec) -> str | None:
    return "a.metric" if spec is criteria.CUSTOM else None


def _on_scale(value: float, spec: CriterionSpec) -> bool:
    lowest = -math.inf if spec.scale.lowest is None else spec.scale.lowest
    highest = math.inf if spec.scale.highest is None else spec.scale.highest
    return math.isfinite(value) and lowest <= value <= highest


def _evidences() -> list[TrialView]:
    said = Invocation(
        user_content=Content(), final_response=Content(parts=(Text(text="a b"),)), events=()
    )
    silent = Invocation(user_content=Content())
    sides: list[Any] = [(), (said,), (silent,), (said, silent)]
    return [
        TrialView(
            case=Case(case_id="c", expects_state=state),
            actual=actual,
            expected=expected,
            final_state=state,
        )
        for actual in sides
        for expected in [*sides, None]
        for state in (None, {"a": 1})
    ]
