"""Runs in google-adk's own environment: each kind of agent, by google-adk's evaluation and by
evalgate's worker.

Usage: kinds.py REQUESTS ANSWERS, both one JSON object a line: {"checkout", "package", "kinds": [name...] or null} ->
a list of {"name", "texts", "adk": the turns that LocalEvalService infers, its scores and its final state, "worker": the
messages of our worker for each turn}; in place of either {"failed": why}, or {"lacks": why} if this google-adk has no
such thing. """

import asyncio
import importlib.util
import inspect
import json
import logging
import os
import pathlib
import sys
import warnings
from unittest import mock

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
# inference asks for no scorer, and google-adk imports those packages all the same
for package in ("rouge_score", "pandas", "tabulate"):
    if importlib.util.find_spec(package) is None:
        sys.modules[package] = mock.MagicMock()

from google.adk.evaluation.base_eval_service import InferenceConfig, InferenceRequest
from google.adk.evaluation.eval_case import EvalCase, Invocation, SessionInput
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_service import LocalEvalService

STATE = {"city": "Oslo"}


def session():
    return SessionInput(app_name="app", user_id="user", state=STATE)


async def infer(loaded, texts):
    app = loaded if type(loaded).__name__ == "App" else None
    if app and "app" not in inspect.signature(LocalEvalService.__init__).parameters:
        raise NotImplementedError("this google-adk evaluates no App")
    turns = [Invocation(user_content={"role": "user", "parts": [{"text": text}]}) for text in texts]
    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("app", "set")
    manager.add_eval_case("app", "set", EvalCase(eval_id="case", conversation=turns, session_input=session()))
    agent = app.root_agent if app else loaded
    service = LocalEvalService(root_agent=agent, eval_sets_manager=manager, **({"app": app} if app else {}))
    request = InferenceRequest(app_name="app", eval_set_id="set", inference_config=InferenceConfig())
    [result] = [result async for result in service.perform_inference(request)]
    if result.inferences is None:
        return {"failed": str(result.error_message)}
    return [turn.model_dump(mode="json", exclude_none=True) for turn in result.inferences]


async def work(host_module, package, name, texts):
    host = host_module.Host()
    try:
        await host.load({"path": package, "agent": f"kind_{name}"})
        start = {"app_name": "app", "user_id": "user", "state": dict(STATE)}
        conversation = await host.open(start, None)
        turns = []
        for text in texts:
            events = []
            content = {"role": "user", "parts": [{"text": text}]}
            end = await conversation.turn(content, events.append)
            turns.append({"events": events, "end": end})
        await conversation.end()
        return turns
    except BaseException as error:  # a service that is down is no Exception
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        await host.close()


def attempt(run, *arguments):
    try:
        return asyncio.run(asyncio.wait_for(run(*arguments), 60))
    except (ImportError, NotImplementedError) as error:
        return {"lacks": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def built(kinds, name):
    try:
        return kinds.KINDS[name][0]()
    except Exception as error:  # an option or a module that this version does not know
        return {"lacks": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def answered(request):
    os.chdir(request["checkout"])
    sys.path[:0] = [request["checkout"], request["source"]]
    kinds = importlib.import_module(f"{request['package']}.agent")
    names = request["kinds"] or list(kinds.KINDS)
    rows = [{"name": name, "texts": kinds.KINDS[name][1]} for name in names]
    for row in rows:
        agent = built(kinds, row["name"])
        row["adk"] = agent if isinstance(agent, dict) else attempt(infer, agent, row["texts"])
    # only now, as it changes what google-adk does in this process
    host_module = importlib.import_module("evalgate.worker.adk")
    for row in rows:
        if "lacks" not in row["adk"]:
            row["worker"] = attempt(work, host_module, request["package"], row["name"], row["texts"])
    return rows


if __name__ == "__main__":
    requests, answers = map(pathlib.Path, sys.argv[1:])
    found = [answered(json.loads(line)) for line in requests.read_text("utf-8").splitlines()]
    answers.write_text("".join(json.dumps(each, default=str) + "\n" for each in found), "utf-8")
