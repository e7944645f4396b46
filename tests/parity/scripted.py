"""One criterion over scripted judge replies, by google-adk and by us."""

import json
import re
from collections.abc import Callable
from typing import Any

from builders.judging import ScriptedJudge, panel
from google.genai import types

from evalgate import criteria
from evalgate.config.gate_file import JudgeRule
from evalgate.criteria.base import CriterionServices
from evalgate.formats.adk_shapes import InvocationWire, RubricWire, ScenarioWire
from evalgate.judges import gemini
from evalgate.judges.base import JudgeFailed, JudgeFailure, JudgeReply, JudgeRequest, JudgeSetting
from evalgate.model import Case, CriterionUse, Ending, Grade, Text, TrialView
from evalgate.model.deviations import under

THRESHOLD = 0.5
MARK = re.compile(r"@[a-z0-9.]+@")

Scripted = dict[str, Any]


def grade(request: Scripted, *, adk_compat: bool) -> Grade:
    """Ours."""
    judge = ScriptedJudge(_script(request["replies"]))
    held = panel(judge, defaults=JudgeRule(client="openai"))
    options = {key: value for key, value in request["criterion"].items() if key != "threshold"}
    use = CriterionUse(name=request["metric"], threshold=THRESHOLD, options=options)
    try:
        return criteria.build(
            use, CriterionServices(deviations=under(adk_compat=adk_compat), judge=held)
        )(_evidence(request))
    finally:
        held.close()


def _script(scripts: dict[str, list[Any]]) -> Callable[[JudgeRequest], str | JudgeReply]:
    def say(request: JudgeRequest) -> str | JudgeReply:
        mark = MARK.findall(request.prompt)[-1]
        stage = request.sample
        if "\n<<< sentences " in request.prompt:
            stage = min(1 + request.sample, len(scripts[mark]) - 1)
        reply = scripts[mark][stage] if stage < len(scripts[mark]) else "nothing"
        if request.model.startswith("vertex_evaluation/") and reply != "raise":
            score = float(reply) if reply is not None else None
            result = {
                "coherenceResult" if "coherence" in request.model else "metricResults": {
                    "score": score
                }
            }
            return json.dumps(
                {key: value if "coherence" in key else [value] for key, value in result.items()}
            )
        if isinstance(reply, dict):
            read = gemini._reply_of(
                types.GenerateContentResponse.model_validate(reply), JudgeSetting(model="m")
            )
            if isinstance(read, JudgeFailure):
                raise JudgeFailed(read)
            return read
        if isinstance(reply, str):
            return "<bad_request>" if reply == "raise" else "<blocked>"
        return JudgeReply(
            parts=tuple(
                Text(text=text if thought else as_asked(text, request.prompt), thought=thought)
                for text, thought in reply
            )
        )

    return say


def as_asked(text: str, prompt: str) -> str:
    """What a judge says in ADK's form of what our prompt asks about, in the form that it asks for:
    docs/decisions/006."""
    blocks = [
        {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        for lines in (block.splitlines() for block in text.split("\n\n"))
    ]
    if all("verdict" in block for block in blocks):  # of rubrics
        asked = {each["id"] for each in _listed("properties", prompt)}
        return json.dumps({"verdicts": [block for block in blocks if block["id"] in asked]})
    if all("label" in block for block in blocks):
        names = {each["sentence"]: each["id"] for each in _listed("sentences", prompt)}
        return json.dumps(
            {"verdicts": [{"id": names[block["sentence"]], **block} for block in blocks]}
        )
    return text.replace('"is_the_agent_response_valid"', '"verdict"')


def _listed(piece: str, prompt: str) -> list[dict[str, str]]:
    material = prompt.partition(f"\n<<< {piece} ")[2].partition("\n")[2]
    listed: list[dict[str, str]] = json.loads(material.partition(f"\n>>> {piece} ")[0])
    return listed


def _evidence(request: Scripted) -> TrialView:
    actual, expected = (
        None
        if side is None
        else tuple(InvocationWire.model_validate(each).to_model() for each in side)
        for side in (request["actual"], request["expected"])
    )
    scenario = (
        ScenarioWire.model_validate(request["scenario"]).to_model()
        if request.get("scenario")
        else None
    )
    rubrics = tuple(
        RubricWire.model_validate(each).to_model() for each in request.get("case_rubrics", ())
    )
    case = Case(case_id="c", conversation=expected, scenario=scenario, rubrics=rubrics)
    ended_by = Ending(request["ended_by"]) if request.get("ended_by") else None
    return TrialView(case=case, actual=actual or (), expected=expected, ended_by=ended_by)
