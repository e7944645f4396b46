"""Runs in google-adk's own environment: reads evaluation files and scores invocations with ADK's
evaluators.

Usage: score.py REQUESTS ANSWERS, both one JSON object a line. {"read": PATH} -> {"pairs":
[{"actual": [...] | null, "expected": [...]}]}: cases whose every invocation ADK accepts {"configs":
[EvalConfig...], "actual": [...], "expected": [...] | null} -> {"results": [{metric: result}]} or
{"unreadable": why} {"metric": the protocol's `metric` message} -> {"answer": what evalgate's worker
answers} """

import asyncio
import functools
import inspect
import json
import logging
import pathlib
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.local_eval_sets_manager import convert_eval_set_to_pydantic_schema
from google.adk.evaluation.metric_evaluator_registry import (
    MetricEvaluatorRegistry,
    register_custom_metrics_from_config,
)

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
# the worker is no part of an installed package here
sys.path.append(str(HERE.parents[2] / "evalgate"))


def read(path):
    content = json.loads(pathlib.Path(path).read_text("utf-8-sig"))
    if isinstance(content, str):
        content = json.loads(content)
    if isinstance(content, list):
        return _read_old(content)
    cases = _either(content, "eval_cases") or []
    results = _either(content, "eval_case_results") or []
    pairs = [_case(case) for case in cases] + [_result(result) for result in results]
    return [pair for pair in pairs if pair]


def _either(mapping, name):
    head, *rest = name.split("_")
    return mapping.get(name, mapping.get(head + "".join(word.title() for word in rest)))


def _read_old(content):
    if content and "query" in content[0]:
        content = [{"name": "case", "data": content}]
    try:
        cases = convert_eval_set_to_pydantic_schema("set", content).eval_cases
    except Exception:
        return []
    return [{"actual": None, "expected": [_dump(each) for each in case.conversation or []]} for case in cases]


def _dump(invocation):
    return invocation.model_dump(mode="json", exclude_none=True)


def _case(case):
    try:
        conversation = EvalCase.model_validate(case).conversation
    except Exception:
        return None
    return {"actual": None, "expected": case["conversation"]} if conversation else None


def _result(result):
    turns = _either(result, "eval_metric_result_per_invocation") or []
    actual = [_either(turn, "actual_invocation") for turn in turns]
    expected = [_either(turn, "expected_invocation") for turn in turns]
    try:
        for each in [*actual, *expected]:
            Invocation.model_validate(each)
    except Exception:
        return None
    return {"actual": actual, "expected": expected} if turns else None


def score(request):
    try:
        actual = [Invocation.model_validate(each) for each in request["actual"]]
        expected = request["expected"]
        if expected is not None:
            expected = [Invocation.model_validate(each) for each in expected]
    except Exception as error:
        return {"unreadable": str(error)}
    return {"results": [_score_all(json.dumps(config), actual, expected) for config in request["configs"]]}


def _score_all(raw_config, actual, expected):
    config = _read(raw_config)
    registry = register_custom_metrics_from_config(config, REGISTRY)
    return {
        metric.metric_name: _score_one(registry, metric, actual, expected)
        for metric in get_eval_metrics_from_config(config)
    }


_read = functools.cache(EvalConfig.model_validate_json)


def _score_one(registry, metric, actual, expected):
    try:
        found = registry.get_evaluator(eval_metric=metric).evaluate_invocations(
            actual_invocations=actual, expected_invocations=expected, conversation_scenario=None
        )
        if inspect.isawaitable(found):
            found = asyncio.run(_settled(found))
    except Exception as error:
        return {"score": None, "status": "NOT_EVALUATED", "turns": [], "details": {}, "error": repr(error)}
    details = found.overall_token_usage_details or found.overall_duration_details
    return {
        "score": _hex(found.overall_score),
        "status": found.overall_eval_status.name,
        "turns": [_hex(each.score) for each in found.per_invocation_results],
        "details": {key: _hex(value) for key, value in details.model_dump().items()} if details else {},
    }


async def _settled(awaitable):
    return await awaitable


def _hex(number):
    return None if number is None else float(number).hex()


def answered(request):
    if "read" in request:
        return {"pairs": read(request["read"])}
    if "metric" in request:
        from worker import metrics

        return {"answer": asyncio.run(metrics.run(request["metric"], "agent"))}
    return score(request)


REGISTRY = MetricEvaluatorRegistry()


def main(requests, answers):
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as out:
        for line in lines:
            request = json.loads(line)
            out.write(json.dumps(answered(request)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
