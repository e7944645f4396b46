"""Which judge is asked is written into the options, where it counts for the address of a grade."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from evalgate import criteria
from evalgate.config.gate_file import GateFile, JudgeOptionsRule, JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.formats import fingerprints
from evalgate.judges import replay
from evalgate.judges.base import JudgeReply, Text
from evalgate.judges.replay import CachedReply
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Suite,
)
from evalgate.model.deviations import OURS

NAME = "hallucinations_v1"


def settled(options: dict[str, object], defaults: JudgeRule) -> dict[str, object]:
    use = CriterionUse(name=NAME, threshold=0.5, options=options)
    return dict(judges.settle(use, defaults).options)


@pytest.mark.parametrize(
    ("written", "defaults", "model", "samples"),
    [
        ({}, JudgeRule(), "gemini-2.5-flash", 5),
        ({"judge_model": "gpt-4.1", "num_samples": 3}, JudgeRule(), "gpt-4.1", 3),
        # the gate's own file stands above the criteria file, and its word on one criterion above
        # its word on all
        ({"judge_model": "gpt-4.1"}, JudgeRule(model="gemini-3"), "gemini-3", 5),
        (
            {"num_samples": 3},
            JudgeRule(num_samples=7, criteria={NAME: JudgeOptionsRule(num_samples=1)}),
            "gemini-2.5-flash",
            1,
        ),
    ],
)
def test_who_is_asked(
    written: dict[str, object], defaults: JudgeRule, model: str, samples: int
) -> None:
    options = settled(
        {"judge_model_options": written, "evaluate_intermediate_nl_responses": True}, defaults
    )
    judge = options["judge_model_options"]
    assert judge == {"judge_model": model, "num_samples": samples}
    assert options["evaluate_intermediate_nl_responses"] is True
    criteria.CRITERIA[NAME].options.model_validate(options)


def test_configs_are_merged_and_exhaustive_is_kept() -> None:
    defaults = JudgeRule(config={"temperature": 0.0}, exhaustive=True)
    written = {"judge_model_options": {"judge_model_config": {"temperature": 1.0, "seed": 7}}}
    options = settled(written, defaults)
    assert options["judge_model_options"]["judge_model_config"] == {"temperature": 0.0, "seed": 7}  # type: ignore[index]
    assert options["exhaustive"] is True


def test_a_criterion_that_asks_nobody_stays_as_it_is() -> None:
    use = CriterionUse(name="response_match_score", threshold=0.5)
    assert judges.settle(use, JudgeRule()) is use


@pytest.mark.parametrize(
    ("name", "options", "endpoint"),
    [
        (NAME, {}, "http://127.0.0.1:8080/v1"),
        ("safety_v1", {"judge": "llm"}, "http://127.0.0.1:8080/v1"),
        ("safety_v1", {}, ""),  # Google Cloud's evaluation service, wherever models are
        ("response_match_score", {}, ""),
    ],
)
def test_a_judge_at_another_address_is_another_judge(
    name: str, options: dict[str, object], endpoint: str
) -> None:
    use = CriterionUse(name=name, threshold=0.5, options=options)
    here, there = (
        judges.settle(use, JudgeRule(base_url=base_url))
        for base_url in ("", "http://127.0.0.1:8080/v1")
    )
    assert (here.endpoint, there.endpoint) == ("", endpoint)
    one, other = (
        fingerprints.of_criterion(each, version="1", deviations=OURS) for each in (here, there)
    )
    assert (one != other) == bool(endpoint)


@pytest.mark.parametrize(
    ("rule", "same"),
    [
        ({"replay": "here.jsonl"}, True),
        ({"replay": "there.jsonl"}, True),  # what they say counts, not where they lie
        ({"replay": "others.jsonl"}, False),
        ({"client": "openai"}, False),
        ({}, False),
    ],
)
def test_no_grade_or_simulated_user_of_other_replies_stands_in(
    tmp_path: Path, rule: dict[str, str], same: bool
) -> None:
    for name, label in (("here", "valid"), ("there", "valid"), ("others", "invalid")):
        entry = CachedReply(address="0" * 64, reply=JudgeReply(parts=(Text(text=label),)))
        (tmp_path / f"{name}.jsonl").write_text(replay.render_entry(entry) + "\n")
    case = Case(
        case_id="a", scenario=ConversationScenario(starting_prompt="hi", conversation_plan="say hi")
    )
    own = Suite(
        key="a.evalset.json",
        eval_set=EvalSet(eval_set_id="a", cases=(case,)),
        criteria=(
            CriterionUse(name=NAME, threshold=0.5),
            CriterionUse(name="safety_v1", threshold=0.5),
        ),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk"),
    )
    prints = []
    for each in ({"replay": "here.jsonl"}, rule):
        choice = Settings(root=tmp_path, gate_file=GateFile(judge=JudgeRule.model_validate(each)))
        (suite,) = judges.settle_suites([own], judges.defaults_of(choice))
        asked = [
            fingerprints.of_criterion(use, version="1", deviations=OURS) for use in suite.criteria
        ]
        prints.append([*asked, fingerprints.of_task(case, simulator=suite.simulator)])
    assert [one == other for one, other in zip(*prints, strict=True)] == [same] * 3


@pytest.mark.parametrize("name", ["system_instruction", "systemInstruction"])
def test_a_system_instruction_is_text(name: str) -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
    with pytest.raises(ValidationError, match=f"`{name}` is .*, expected text"):
        JudgeRule.model_validate({"config": {name: [{"text": "Be strict."}, image]}})
