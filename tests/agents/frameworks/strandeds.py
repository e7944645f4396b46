"""Agents of Strands."""

import script
from strands import Agent, ToolContext, tool
from strands.models import Model


class Scripted(Model):
    def get_config(self):
        return {"model_id": "scripted-1"}

    def update_config(self, **_):
        pass

    async def structured_output(self, *_, **__):
        raise NotImplementedError
        yield

    async def stream(self, messages, tool_specs=None, system_prompt=None, **_):
        asked = [
            index
            for index, message in enumerate(messages)
            if message["role"] == "user" and "text" in message["content"][0]
        ]
        answered = sum(
            "toolResult" in block
            for message in messages[asked[-1] :]
            for block in message["content"]
        )
        verb, name, args = script.step(messages[asked[-1]]["content"][0]["text"], answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        yield {"messageStart": {"role": "assistant"}}
        if verb == "call":
            call = {"toolUse": {"name": name, "toolUseId": f"id-{len(messages)}"}}
            yield {"contentBlockStart": {"start": call}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": script.json.dumps(args)}}}}
        else:
            yield {"contentBlockDelta": {"delta": {"text": name}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if verb == "call" else "end_turn"}}
        usage = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool(context=True)
def remember(word: str, tool_context: ToolContext) -> str:
    """Keeps a word."""
    words = [*(tool_context.agent.state.get("words") or []), word]
    tool_context.agent.state.set("words", words)
    return f"kept {len(words)}"


def make():
    return Agent(
        model=Scripted(),
        tools=[*map(tool, script.TOOLS), remember],
        system_prompt="Follow the script.",
        callback_handler=None,
        retry_strategy=None,
    )


agent = make()
not_an_agent = 3
