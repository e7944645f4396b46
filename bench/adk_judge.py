"""ADK's judge plumbing on the benchmark's cases; runs in ADK's own environment, started by
bench/judge.py.

Reads one JSON object from stdin: patterns (one list of agreements a case), samples, latency_s,
cases_at_once, parallelism_limit. Writes one JSON object: calls, wall_s, scores."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time

from google.adk.evaluation.eval_case import Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, JudgeModelOptions, LlmAsAJudgeCriterion
from google.adk.evaluation.final_response_match_v2 import FinalResponseMatchV2Evaluator
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

ASKED = json.load(sys.stdin)
CALLS: dict[int, int] = {}


class Bench(BaseLlm):
    """A judge that thinks for a while and says what the pattern of the case holds."""

    @classmethod
    def supported_models(cls):
        return [r"bench-.*"]

    async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002 - the signature is ADK's
        del stream
        text = llm_request.contents[0].parts[0].text
        case = int(re.search(r"case-(\d+)", text)[1])
        sample = CALLS[case] = CALLS.get(case, -1) + 1
        await asyncio.sleep(ASKED["latency_s"])
        label = "valid" if ASKED["patterns"][case][sample] else "invalid"
        said = json.dumps({"reasoning": "so", "is_the_agent_response_valid": label}, indent=1)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))


def content(text: str) -> types.Content:
    return types.Content(parts=[types.Part(text=text)])


async def evaluate(case: int) -> float | None:
    options = JudgeModelOptions(
        judge_model="bench-judge",
        num_samples=ASKED["samples"],
        parallelism_limit=ASKED["parallelism_limit"],
    )
    criterion = LlmAsAJudgeCriterion(threshold=0.5, judge_model_options=options)
    metric = EvalMetric(metric_name="final_response_match_v2", threshold=0.5, criterion=criterion)
    turn = Invocation(user_content=content(f"case-{case}"), final_response=content("yes"))
    return (
        await FinalResponseMatchV2Evaluator(metric).evaluate_invocations([turn], [turn])
    ).overall_score


async def main() -> None:
    at_once = asyncio.Semaphore(ASKED["cases_at_once"])

    async def bounded(case: int) -> float | None:
        async with at_once:
            return await evaluate(case)

    began = time.perf_counter()
    scores = await asyncio.gather(*(bounded(case) for case in range(len(ASKED["patterns"]))))
    seconds = time.perf_counter() - began
    print(
        json.dumps({"calls": sum(CALLS.values()) + len(CALLS), "wall_s": seconds, "scores": scores})
    )


logging.disable(logging.CRITICAL)
LLMRegistry.register(Bench)
asyncio.run(main())
