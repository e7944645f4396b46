"""Runs in google-adk's own environment: what LocalEvalService infers for an agent, one case after
another.

Usage: infer.py REQUESTS ANSWERS, both one JSON object a line: {"checkout", "agent", "cases": [[user
text...]...]} -> a list of each case's invocations, or of {"failed": why}. """

import asyncio
import importlib
import json
import logging
import pathlib
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.evaluation.base_eval_service import InferenceConfig, InferenceRequest
from google.adk.evaluation.eval_case import EvalCase, Invocation, SessionInput
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_service import LocalEvalService


def turn(text):
    return Invocation(user_content={"role": "user", "parts": [{"text": text}]})


async def infer(agent, app, cases):
    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("app", "set")
    for number, texts in enumerate(cases):
        session = SessionInput(app_name="app", user_id=f"user-{number}", state={})
        case = EvalCase(eval_id=f"case-{number:03}", conversation=[turn(text) for text in texts], session_input=session)
        manager.add_eval_case("app", "set", case)
    service = LocalEvalService(root_agent=agent, eval_sets_manager=manager, **({"app": app} if app else {}))
    request = InferenceRequest(app_name="app", eval_set_id="set", inference_config=InferenceConfig())
    results = [result async for result in service.perform_inference(request)]
    results.sort(key=lambda result: result.eval_case_id)
    return [told(result) for result in results]


def told(result):
    if result.inferences is None:
        return {"failed": result.error_message}
    return [each.model_dump(mode="json", exclude_none=True) for each in result.inferences]


def answered(request):
    sys.path.insert(0, request["checkout"])
    module = importlib.import_module(f"{request['agent']}.agent")
    app = getattr(module, "app", None)
    agent = app.root_agent if app else module.root_agent
    return asyncio.run(infer(agent, app, request["cases"]))


if __name__ == "__main__":
    requests, answers = map(pathlib.Path, sys.argv[1:])
    found = [answered(json.loads(line)) for line in requests.read_text("utf-8").splitlines()]
    answers.write_text("".join(json.dumps(each) + "\n" for each in found), "utf-8")
