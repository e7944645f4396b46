"""Runs in google-adk's own environment: scores of the client behind `agents-cli eval run`.

Usage: agents_cli.py REQUESTS ANSWERS, both one JSON object a line: {"case", "events" of the agent,
"agents", "functions": {name: source}, "prompts": {name: template}, "built_in": [...], "url" of the
evaluation service or null} -> by metric: {"score", "explanation", "error"}. The steps around the
client are those of `agents-cli eval generate` and `grade` (google-agents-cli 1.11)."""

import json
import sys

import agentplatform
from agentplatform import types
from google.genai import types as genai_types
from google.oauth2.credentials import Credentials


def merged(request):
    """The case with the agent's events and its last text, as `eval generate` writes it."""
    case = types.EvalCase.model_validate(request["case"])
    events = [types.evals.AgentEvent.model_validate(event) for event in request["events"]]
    data = case.agent_data or types.evals.AgentData(turns=[])
    agents = {
        name: types.evals.AgentConfig.model_validate(agent)
        for name, agent in request["agents"].items()
    }
    data.agents = agents or data.agents
    if data.turns:
        data.turns[-1].events = [*(data.turns[-1].events or []), *events]
    else:
        data.turns = [types.evals.ConversationTurn(turn_index=0, turn_id="turn_0", events=events)]
    responses = [*(case.responses or [])]
    for event in reversed(events):
        texts = [part.text for part in (event.content and event.content.parts) or [] if part.text]
        if texts:
            role = event.content.role or "model"
            content = genai_types.Content(role=role, parts=[{"text": "".join(texts)}])
            responses.append(types.ResponseCandidate(response=content))
            break
    return case.model_copy(update={"agent_data": data, "responses": responses or None})


def metrics_of(request):
    for name, source in request.get("functions", {}).items():
        namespace = {}
        exec(compile(source, f"<custom_metric:{name}>", "exec"), namespace)
        yield types.Metric(name=name, custom_function=namespace["evaluate"])
    for name, template in request.get("prompts", {}).items():
        yield types.LLMMetric(name=name, prompt_template=template)
    yield from request.get("built_in", ())


def scores(request):
    url = request.get("url")
    options = {"base_url": url} if url else {}
    client = agentplatform.Client(
        project="p", location="global", credentials=Credentials(token="a-token"), http_options=options
    )
    dataset = types.EvaluationDataset.model_validate_json(
        types.EvaluationDataset(eval_cases=[merged(request)]).model_dump_json(exclude_none=True)
    )
    result = client.evals.evaluate(dataset=dataset, metrics=list(metrics_of(request)))
    (case,) = result.eval_case_results
    (candidate,) = case.response_candidate_results
    return {
        name: {"score": each.score, "explanation": each.explanation, "error": each.error_message}
        for name, each in candidate.metric_results.items()
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as requests, open(sys.argv[2], "w", encoding="utf-8") as answers:
        for line in requests:
            answers.write(json.dumps(scores(json.loads(line))) + "\n")
