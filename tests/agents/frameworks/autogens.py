"""Agents of AutoGen's AgentChat."""

import json

import script
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage

FEATURES = ("vision", "function_calling", "json_output", "structured_output")


class Scripted(ChatCompletionClient):
    component_config_schema = None

    def __init__(self):
        self._create_args = {"model": "scripted-1"}

    @property
    def model_info(self):
        return {**dict.fromkeys(FEATURES, False), "function_calling": True, "family": "unknown"}

    capabilities = model_info

    async def create(self, messages, **_):
        kinds = [type(message).__name__ for message in messages]
        asked = [index for index, kind in enumerate(kinds) if kind == "UserMessage"]
        answered = kinds[asked[-1] :].count("FunctionExecutionResultMessage")
        verb, name, args = script.step(messages[asked[-1]].content, answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        content = name
        if verb == "call":
            content = [FunctionCall(f"id-{len(messages)}", json.dumps(args), name)]
        usage = RequestUsage(prompt_tokens=10, completion_tokens=2)
        return CreateResult(content=content, usage=usage, finish_reason="stop", cached=False)

    def create_stream(self, *_, **__):
        raise NotImplementedError

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *_, **__):
        return 0

    remaining_tokens = count_tokens


def make(name="desk"):
    return AssistantAgent(
        name,
        model_client=Scripted(),
        tools=[*script.TOOLS],
        system_message="Follow the script.",
        max_tool_iterations=10,
    )


agent = make()
team = RoundRobinGroupChat(
    [make("first"), make("second")],
    termination_condition=MaxMessageTermination(2),
)
not_an_agent = 3
