"""Runs in google-adk's own environment: ADK's judged evaluators with a judge that says what it is
told to say.

Usage: judged.py REQUESTS ANSWERS, both one JSON object a line. {"metric", "criterion", "actual":
[...], "expected": [...] | null, "replies": {mark: [reply...]}, "scenario"?, "case_rubrics"?} ->
{"score", "status", "turns", "error"?}. The n-th question that holds a mark last gets the n-th reply
to that mark; a reply is a list of parts ([text, is_thought]), a whole answer of the Gemini API,
"raise" or "nothing"; of Google Cloud's service a number, "nan", null or "raise". """

import asyncio
import os
import types as stdlib_types
import inspect
import json
import logging
import re
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.evaluation.conversation_scenarios import ConversationScenario
from google.adk.evaluation import local_eval_service
from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.metric_evaluator_registry import MetricEvaluatorRegistry
from google.adk.evaluation.metric_evaluator_registry import register_custom_metrics_from_config
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

MARK = re.compile(r"@[a-z0-9.]+@")
script = {}


class ScriptedJudge(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["scripted-judge"]

    async def generate_content_async(self, llm_request, stream=False):
        mark = MARK.findall(llm_request.contents[0].parts[0].text)[-1]
        reply = script[mark].pop(0)
        if reply == "raise":
            raise RuntimeError("the judge is down")
        if reply == "nothing":
            yield LlmResponse(error_code="SAFETY", error_message="blocked")
            return
        if isinstance(reply, dict):
            yield LlmResponse.create(types.GenerateContentResponse.model_validate(reply))
            return
        parts = [types.Part(text=text, thought=thought or None) for text, thought in reply]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def service(facade, dataset, metrics):
    """What Google Cloud's evaluation service would return for the instance that holds a mark."""
    if dataset.eval_dataset_df is not None:
        text = str(dataset.eval_dataset_df.iloc[0]["prompt"])
    else:
        turns = dataset.eval_cases[0].agent_data.turns
        text = str([event.content for turn in turns for event in turn.events])
    said = script[MARK.findall(text)[-1]][0]
    if said == "raise":
        raise RuntimeError("the service is down")
    metric = stdlib_types.SimpleNamespace(mean_score=float(said) if said is not None else None)
    return stdlib_types.SimpleNamespace(summary_metrics=[metric], eval_case_results=[])


def judged(request):
    script.clear()
    script.update(request["replies"])
    config = EvalConfig.model_validate({"criteria": {request["metric"]: request["criterion"]}})
    registry = register_custom_metrics_from_config(config, REGISTRY)
    (metric,) = [m for m in get_eval_metrics_from_config(config) if m.metric_name == request["metric"]]
    actual = [invocation(each) for each in request["actual"]]
    expected = request["expected"] and [Invocation.model_validate(each) for each in request["expected"]]
    scenario = request.get("scenario") and ConversationScenario.model_validate(request["scenario"])
    try:
        if request.get("case_rubrics"):
            case = {"eval_id": "c", "conversation": request["actual"], "rubrics": request["case_rubrics"]}
            local_eval_service._copy_eval_case_rubrics_to_actual_invocations(EvalCase.model_validate(case), actual)
        found = registry.get_evaluator(eval_metric=metric).evaluate_invocations(
            actual_invocations=actual, expected_invocations=expected, conversation_scenario=scenario
        )
        if inspect.isawaitable(found):
            found = asyncio.run(settled(found))
    except Exception as error:
        return {"score": None, "status": "NOT_EVALUATED", "turns": [], "error": repr(error)}
    return {
        "score": hexed(found.overall_score),
        "status": found.overall_eval_status.name,
        "turns": [hexed(each.score) for each in found.per_invocation_results],
    }


def invocation(written):
    """A turn as an agent's run leaves it: tools are google.genai's, which no recording keeps."""
    read = Invocation.model_validate(written)
    for agent in (read.app_details.agent_details if read.app_details else {}).values():
        agent.tool_declarations = [types.Tool.model_validate(tool) for tool in agent.tool_declarations]
    return read


async def settled(awaitable):
    return await awaitable


def hexed(number):
    return None if number is None else float(number).hex()


def main(requests, answers):
    LLMRegistry.register(ScriptedJudge)
    os.environ["GOOGLE_API_KEY"] = "none"
    from google.adk.evaluation import vertex_ai_eval_facade

    vertex_ai_eval_facade._VertexAiEvalFacade._perform_eval = service
    vertex_ai_eval_facade.agentplatform = stdlib_types.SimpleNamespace(Client=lambda **_: None)
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(judged(json.loads(line))) + "\n")


REGISTRY = MetricEvaluatorRegistry()

if __name__ == "__main__":
    main(*sys.argv[1:])
