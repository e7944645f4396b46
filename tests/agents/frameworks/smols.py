"""Agents of smolagents."""

import script
from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import TokenUsage

MARK = "New task:\n"


def text_of(message):
    content = message.content
    return (
        content
        if isinstance(content, str)
        else "\n".join(part.get("text") or "" for part in content or ())
    )


def said(messages):
    """The last script, how many steps have been taken since, and how many scripts there were."""
    tasks = [index for index, each in enumerate(messages) if text_of(each).startswith(MARK)]
    task = text_of(messages[tasks[-1]])[len(MARK) :].split("\nYou have been provided")[0]
    roles = [str(each.role) for each in messages[tasks[-1] + 1 :]]
    return (
        task,
        sum("tool-response" in role or "TOOL_RESPONSE" in role for role in roles),
        len(tasks),
    )


class Scripted(Model):
    def __init__(self):
        super().__init__(model_id="scripted-1")

    def generate(
        self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **_
    ):
        task, answered, turns = said(messages)
        verb, name, args = script.step(task, answered)
        name = f"turn {turns}" if name == "(turns)" else name
        if verb == "say":
            name, args = "final_answer", {"answer": name}
        text, calls = "", None
        if tools_to_call_from is None:
            text = f"Thought: on\n<code>\n{name}(**{args!r})\n</code>"
        else:
            function = ChatMessageToolCallFunction(name=name, arguments=args)
            calls = [
                ChatMessageToolCall(function=function, id=f"id-{len(messages)}", type="function")
            ]
        usage = TokenUsage(input_tokens=10, output_tokens=2)
        return ChatMessage(
            role=MessageRole.ASSISTANT, content=text, tool_calls=calls, token_usage=usage
        )


class Patient(Scripted):
    def generate(self, *args, **options):
        return super().generate(*args, **options)


TOOLS = [*map(tool, script.TOOLS)]
agent = ToolCallingAgent(tools=TOOLS, model=Scripted(), max_steps=4)


def make():
    return ToolCallingAgent(tools=TOOLS, model=Scripted(), max_steps=4)


def make_coder():
    return CodeAgent(tools=TOOLS, model=Patient(), max_steps=4)


coder = make_coder()
not_an_agent = 3
