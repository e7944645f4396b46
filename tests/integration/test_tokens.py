"""Tokens that an agent's events tell, beside those that its models told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        text = llm_request.contents[-1].parts[-1].text.replace("question", "answer")
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=900, candidates_token_count=100, total_token_count=1000
        )
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), usage_metadata=usage)


def cheap(callback_context, llm_response):
    if {lies}:
        llm_response.usage_metadata = types.GenerateContentResponseUsageMetadata(total_token_count=1)
    return llm_response


root_agent = LlmAgent(name="desk", model=Model(model="m"), after_model_callback=cheap)
"""


def repository(folder: Path, agent: str) -> Repository:
    python = Path(os.environ.get("EVALGATE_TEST_ADK", ROOT / ".venv-adk")) / "bin/python"
    if not python.exists():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    made = Repository(folder / "repo", folder / "asked.log")
    made.write("desk/__init__.py", "")
    made.write("desk/agent.py", agent)
    made.write(
        "evalgate.yml",
        json.dumps({"agent": "desk", "python": str(python), "budget": "tokens=2500"}),
    )
    return made


OF_A_TOOL = """
from google.adk.tools.agent_tool import AgentTool


class Asks(Model):
    async def generate_content_async(self, llm_request, stream=False):
        async for told in super().generate_content_async(llm_request):
            last = llm_request.contents[-1].parts[-1]
            if last.function_response is None:
                call = types.FunctionCall(name="inner", args={"request": last.text})
                told.content = types.Content(role="model", parts=[types.Part(function_call=call)])
            yield told


inner = LlmAgent(name="inner", description="Answers.", model=Model(model="m"))
root_agent = LlmAgent(name="desk", model=Asks(model="m"), tools=[AgentTool(inner)])
"""


def test_tokens_of_an_agent_that_is_called_as_a_tool_count(tmp_path: Path) -> None:
    """The events of the one that calls it tell nothing of its answer."""
    repo = repository(
        tmp_path,
        AGENT.format(lies=False).replace("parts[-1].text", "parts[-1].text or ''") + OF_A_TOOL,
    )
    repo.cases(1, 2, threshold=0.0)
    repo.commit("all")
    code, said = repo.run(
        "--baseline", "none", "--concurrency", "1", "--fail-on", "not_measured", base=""
    )
    assert code == 0, said
    cases = repo.results()["suites"][0]["cases"]
    assert [
        trial["tokens"] for case in cases for trial in case.get("trials", ()) if trial.get("tokens")
    ] == [3000]
    assert "the budget of 2,500 agent tokens is spent" in said
    assert "its model responses 3,000" in said


@pytest.mark.parametrize("lies", [False, True])
def test_an_agent_that_tells_of_fewer_tokens_than_its_model_did_spends_the_budget_all_the_same(
    tmp_path: Path, *, lies: bool
) -> None:
    repo = repository(tmp_path, AGENT.format(lies=lies))
    repo.cases(1, 2, 3, 4, 5)
    repo.commit("all")
    code, said = repo.run("--baseline", "none", "--concurrency", "1", base="")
    assert code == 0, said  # inconclusive does not block
    assert "the budget of 2,500 agent tokens is spent" in said
    cases = repo.results()["suites"][0]["cases"]
    assert [
        trial["tokens"] for case in cases for trial in case.get("trials", ()) if trial.get("tokens")
    ] == [1000] * 3
    told = "the agent's events report 3 tokens, its model responses 3,000"
    assert (told in said) == lies
