"""Which settings of a pull request's evalgate.yml count, and what is told of those that do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.baseline.rules import Rules
from evalgate.config import load
from evalgate.config.context import Context, Trigger
from evalgate.config.settings import AgentBudget, Settings
from evalgate.judges import models
from evalgate.model import (
    AgentUse,
    BaseOrigin,
    BaseSource,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Policy,
    SimulatorUse,
    Suite,
)

ELSEWHERE = {"http_options": {"base_url": "https://thief.example"}}
GATEWAY = {"httpOptions": {"headers": {"x-team": "a"}}}
FAIL_ON = ("threshold", "regression", "not_measured")
OPENAI = "https://api.openai.com/v1"


def settings(folder: Path, text: str, **given: Any) -> Settings:
    """What a checkout with this evalgate.yml asks for; "": it has none."""
    folder.mkdir(exist_ok=True)
    if text:
        (folder / "evalgate.yml").write_text(text, encoding="utf-8")
    return load.load_settings({**given, "root": str(folder)})


def suite(
    config: dict[str, Any] | None = None, *, simulator: dict[str, Any] | None = None, key: str = "s"
) -> Suite:
    options = {
        "judge_model_options": {"judge_model": "gpt-4.1", "judge_model_config": config or {}}
    }
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id=key, cases=()),
        criteria=(CriterionUse(name="final_response_match_v2", threshold=0.5, options=options),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS, file=""),
        agent=AgentUse(driver="command", options={}),
        simulator=SimulatorUse(config=simulator),
    )


def settled(
    head: Settings,
    then: Settings | None,
    *,
    own: Suite | None = None,
    theirs: Suite | None = None,
    **trigger: Any,
) -> Rules:
    before = BaseRules(suites=(theirs,), policy=Policy()) if theirs is not None else None
    problem = "" if then is not None else "no such commit"
    origin = BaseOrigin(source=BaseSource.RERUN)
    base = Base(origin=origin, project=BaseProject(settings=then, rules=before), problem=problem)
    about = {"is_pull_request": True, **trigger}
    where = Context(environ={}, cache=Path("/none"), trigger=Trigger(**about))
    rules = baseline_rules.in_force(head, (own or suite(),), base, where)
    of_settings = (problem for problem in rules.problems if problem.code != "base-rules-unchecked")
    return dataclasses.replace(rules, problems=tuple(of_settings))


@pytest.mark.parametrize(
    ("change", "base", "given", "counts", "said"),
    [
        # the base's word, also where it says nothing
        ("env: [A, B]", "env: [A]", {}, {"env": ("A",)}, "`env`: the base's evalgate.yml counts (`A`), not this"),
        ("env: [A]", "output: x", {}, {"env": (), "output": "x"}, "counts (nothing), not this change's (`A`)"),
        ("output: docs/hooks", "env: A", {}, {"output": "evalgate-report"}, "not this change's (`docs/hooks`)"),
        ("baseline-folder: a", "baseline_folder: b", {}, {"baseline_folder": "b"}, "`baseline-folder`: the base's"),
        ("baseline_folder: mine", "runs: 1", {}, {"baseline_folder": ""}, "counts (unset), not this change's (`mine`)"),
        # what the change takes away is still there
        ("runs: 1", "env: [A]", {}, {"env": ("A",)}, "counts (`A`), not this change's (nothing)"),
        # numbers, of which 0 is one
        ("reuse-days: 3", "reuse-days: 0.5", {}, {"reuse_days": 0.5}, "counts (`0.5`), not this change's (`3`)"),
        ("reuse-days: 0", "runs: 1", {}, {"reuse_days": 7}, "counts (`7`), not this change's (`0`)"),
        ("reuse-days: 3", "", {}, {"reuse_days": 7}, "(`3`) does not count: the base has no evalgate.yml yet; the"),
        # a door's word is above both
        ("env: [B]", "env: [A]", {"env": "C"}, {"env": ("C",)}, ""),
        # alike: there is nothing to tell
        ("{env: [A], output: x}", "{env: [A], output: x}", {}, {"env": ("A",), "output": "x"}, ""),
        # less is told than on the base, and more
        ("{comment: off, check-run: false}", "comment: failures", {}, {"comment": "failures", "check_run": True},
         "`check-run`: the base's evalgate.yml counts (`true`), not this change's (`false`)"),
        ("comment: always", "{comment: off}", {}, {"comment": "always"}, ""),
        ("comment: off", "", {}, {"comment": "always"}, "`comment` of this change's evalgate.yml (`off`) does not"),
        ("comment: off", "", {"comment": "off"}, {"comment": "off"}, ""),
        # without a file on the base only doors give anything
        ("env: [A]", "", {}, {"env": ()}, "`env` of this change's evalgate.yml (`A`) does not count: the base has no"),
        ("env: [A]", "", {"env": "A"}, {"env": ("A",)}, ""),
        ("runs: 3", "", {}, {"env": ()}, ""),
        # where the base is not known, neither
        ("env: [A]", None, {}, {"env": ()}, "does not count: the base's evalgate.yml is not known (no such commit)"),
    ],
)  # fmt: skip
def test_the_workflow_or_the_base_decides_what_is_given_out(
    tmp_path: Path,
    change: str,
    base: str | None,
    given: dict[str, Any],
    counts: dict[str, Any],
    said: str,
) -> None:
    head = settings(tmp_path / "head", change, **given)
    rules = settled(head, None if base is None else settings(tmp_path / "base", base, **given))
    assert {name: getattr(rules.settings, name) for name in counts} == counts
    assert rules.settings.runs == head.runs, "everything else is the change's"
    told = " ".join(problem.message for problem in rules.problems)
    assert said in told
    assert bool(said) == bool(told)
    alone = settled(head, None, is_pull_request=False)
    assert (alone.settings, alone.problems) == (head, ()), "at a terminal nothing changes"


def test_a_notice_leads_to_the_line_and_says_what_to_do(tmp_path: Path) -> None:
    head = settings(tmp_path / "head", "runs: 1\nenv: [A]\nbaseline-folder: mine\n")
    folder, env = settled(head, settings(tmp_path / "base", "runs: 1")).problems
    assert env.place is not None
    assert (env.place.line, "as an input of the workflow" in env.hint) == (2, True)
    assert folder.place is not None
    assert (folder.place.line, folder.hint) == (3, "Change it in a pull request of its own first.")


@pytest.mark.parametrize(
    ("change", "base", "counts", "said"),
    [
        ("base_url: http://thief", f"base_url: {OPENAI}", (OPENAI, ""), ["`judge.base_url`: the base's evalgate.yml"]),
        ("api_key_env: DEPLOY", "model: gpt-4.1", ("", ""), ["`judge.api_key_env`: the base's evalgate.yml counts ("]),
        ("model: gpt-5", "api_key_env: K", ("", "K"), ["counts (`K`), not this change's (unset)"]),
        # without a file on the base: a known provider, at its own address
        ("base_url: http://thief, api_key_env: K", None, ("", ""), ["judge.base_url` of this", "api_key_env` of this"]),
        (f"base_url: '{OPENAI}', api_key_env: K", None, (OPENAI, "K"), [f"asked (`base_url: {OPENAI}` and `api_key_"]),
        ("model: gpt-4.1", None, ("", ""), ["the judge of this change's evalgate.yml is asked (`model: gpt-4.1`)"]),
        ("num_samples: 3", None, ("", ""), []),
    ],
)  # fmt: skip
def test_whom_judges_ask_and_with_which_key(
    tmp_path: Path, change: str, base: str | None, counts: tuple[str, str], said: list[str]
) -> None:
    head = settings(tmp_path / "head", f"judge: {{{change}}}")
    rules = settled(head, settings(tmp_path / "base", "" if base is None else f"judge: {{{base}}}"))
    judge = rules.settings.gate_file.judge
    assert (judge.base_url, judge.api_key_env) == counts
    assert judge.model == head.gate_file.judge.model
    assert [
        each for each, problem in zip(said, rules.problems, strict=True) if each in problem.message
    ] == said


def test_the_judges_of_criteria_are_asked_where_it_counts(tmp_path: Path) -> None:
    """The address is written into each criterion, where it is part of the address of a verdict in
    the cache."""
    head = settings(tmp_path / "head", "judge: {base_url: 'http://thief'}")
    own = suite()
    own = dataclasses.replace(
        own,
        criteria=tuple(dataclasses.replace(use, endpoint="http://thief") for use in own.criteria),
    )
    rules = settled(head, settings(tmp_path / "base", f"judge: {{base_url: '{OPENAI}'}}"), own=own)
    assert [use.endpoint for each in rules.suites for use in each.criteria] == [OPENAI]


@pytest.mark.parametrize(
    ("change", "base", "gate_file", "counts"),
    [
        (ELSEWHERE, {}, "runs: 1", {}),
        (ELSEWHERE, GATEWAY, "runs: 1", GATEWAY),
        ({"temperature": 0.5, **ELSEWHERE}, {}, "runs: 1", {"temperature": 0.5}),
        ({}, GATEWAY, "runs: 1", GATEWAY),
        (GATEWAY, GATEWAY, "runs: 1", GATEWAY),
        (ELSEWHERE, None, "runs: 1", {}),  # a file that the base does not have
        (
            ELSEWHERE,
            None,
            "{judge: {config: GATEWAY}, simulator: {config: GATEWAY}}",
            GATEWAY,
        ),  # by what it says of all
        (ELSEWHERE, None, "", {}),
    ],
)
def test_how_models_are_reached_is_the_bases_word(
    tmp_path: Path,
    change: dict[str, Any],
    base: dict[str, Any] | None,
    gate_file: str,
    counts: dict[str, Any],
) -> None:
    """Judges and simulated users alike, in either spelling."""
    text = gate_file.replace("GATEWAY", "{httpOptions: {headers: {x-team: a}}}")
    theirs = None if base is None else suite(base, simulator=base)
    then = settings(tmp_path / "base", text)
    rules = settled(
        settings(tmp_path / "head", text), then, own=suite(change, simulator=change), theirs=theirs
    )
    (made,) = rules.suites
    assert made.criteria[0].options["judge_model_options"]["judge_model_config"] == counts
    assert made.simulator.config == counts
    changed = [problem for problem in rules.problems if "client options" in problem.message]
    assert len(changed) == (0 if change == counts else 2)


def test_a_criterion_without_a_judge_has_no_client_options(tmp_path: Path) -> None:
    """Whatever the base says of judges: a change may add a file that asks none."""
    then = settings(tmp_path / "base", "judge: {config: {httpOptions: {headers: {x-team: a}}}}")
    asked = CriterionUse(name="response_match_score", threshold=0.8)
    own = dataclasses.replace(suite(), criteria=(asked,))
    rules = settled(settings(tmp_path / "head", "runs: 1"), then, own=own, theirs=suite(key="t"))
    (made,) = rules.suites
    assert made.criteria == (asked,)
    assert not any("client options" in problem.message for problem in rules.problems)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("", True),
        (OPENAI, True),
        ("https://api.anthropic.com/v1/", True),
        ("https://openrouter.ai/api/v1", True),
        ("https://generativelanguage.googleapis.com/v1beta", True),
        ("https://europe-west4-aiplatform.googleapis.com", True),
        ("http://api.openai.com/v1", False),  # everybody on the way reads the key
        ("https://api.openai.com:8443/v1", False),
        ("https://api.openai.com@thief.example/v1", False),
        ("https://api.openai.com\\@thief.example/v1", False),
        ("https://api.openai.com.thief.example/v1", False),
        ("https://thief.example/https://api.openai.com/v1", False),
        ("https://api.openai.com/v1\n", False),
        ("https://api.openai.com/v1?key=1", False),
        ("https://storage.googleapis.com/bucket", False),
        ("http://localhost:11434/v1", False),  # where the agent may listen
    ],
)
def test_a_known_provider_is_one_at_its_own_address(url: str, *, known: bool) -> None:
    assert models.is_of_provider(url) is known


@pytest.mark.parametrize(
    ("change", "base", "given", "counts", "said"),
    [
        # what ends the job is the base's word, also where it says nothing
        ("fail-on: [not_measured]", "fail-on: [threshold]", {}, {"fail_on": ("threshold",)}, "`fail-on`: the base's"),
        ("fail-on: [not_measured]", "runs: 1", {}, {"fail_on": FAIL_ON}, "counts (`threshold, regression, not_"),
        ("fail-on: [not_measured]", "", {}, {"fail_on": FAIL_ON}, "does not count: the base has no evalgate.yml yet"),
        ("fail-on: [inconclusive]", "", {"fail_on": "inconclusive"}, {"fail_on": ("inconclusive",)}, ""),
        ("skip-judged: true", "runs: 1", {}, {"skip_judged": False}, "`skip-judged`: the base's"),
        # nor does a change give its agent the answers
        ("needs-evaluation-files: true", "runs: 1", {}, {"needs_evaluation_files": False}, "`needs-evaluation-files`: the"),
        ("needs-evaluation-files: true", "", {}, {"needs_evaluation_files": False}, "the base has no evalgate.yml yet"),
        # a bound that the base has, and one that it does not have
        ("budget: tokens=1", "budget: tokens=9", {}, {"budget": AgentBudget(tokens=9)}, "`budget`: the base's"),
        ("budget: tokens=1", "runs: 1", {}, {"budget": AgentBudget(tokens=1)}, ""),
        ("judge: {budget: {calls: 1}}", "judge: {budget: {calls: 9}}", {}, {"fail_on": FAIL_ON}, "`judge.budget`: the"),
        ("max-baseline-age: 30", "runs: 1", {}, {"max_baseline_age": 14}, "counts (`14`), not this change's (`30`)"),
        # how is measured, and what decides, the change says
        ("{runs: 3, pass-rate: 0.5}", "runs: 1", {}, {"runs": 3, "pass_rate": 0.5}, ""),
    ],
)  # fmt: skip
def test_the_base_decides_what_ends_the_job(
    tmp_path: Path, change: str, base: str, given: dict[str, Any], counts: dict[str, Any], said: str
) -> None:
    sides = [
        settings(tmp_path / side, text, **given)
        for side, text in (("head", change), ("base", base))
    ]
    for is_pull_request in (True, False):
        rules = settled(*sides, theirs=suite(), is_pull_request=is_pull_request)
        assert {name: getattr(rules.settings, name) for name in counts} == counts
        told = [problem.message for problem in rules.problems if problem.code == "setting-of-base"]
        assert [said in each for each in told] == [True] * bool(said)
