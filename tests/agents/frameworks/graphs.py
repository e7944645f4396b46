"""Agents of LangGraph and LangChain."""

from dataclasses import dataclass
from typing import Annotated, TypedDict

import script
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        last = max(index for index, each in enumerate(messages) if each.type == "human")
        verb, name, args = script.step(
            messages[last].text, sum(each.type == "tool" for each in messages[last:])
        )
        text = name if verb == "say" else ""
        if text == "(turns)":
            text = f"turn {sum(each.type == 'human' for each in messages)}"
        calls = (
            [{"name": name, "args": args, "id": f"id-{len(messages)}"}] if verb == "call" else []
        )
        message = AIMessage(
            text,
            tool_calls=calls,
            usage_metadata={"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
            response_metadata={"model_name": "scripted-1"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def moved(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Answers with a Command."""
    return Command(
        update={
            "city": city,
            "messages": [{"role": "tool", "content": "ok", "tool_call_id": tool_call_id}],
        }
    )


PROMPT = "Follow the script."
agent = create_agent(Scripted(), [*map(tool, script.TOOLS), moved], system_prompt=PROMPT)


@dataclass
class Desk:
    user: str


@tool
def whose(runtime: ToolRuntime[Desk]) -> str:
    """The user's name."""
    return runtime.context.user


typed = create_agent(Scripted(), [whose], context_schema=Desk)


def make():
    return agent


class State(TypedDict, total=False):
    question: str
    answer: str
    turns: int
    bonus: int


async def answer(state):
    found = await tool(script.weather).ainvoke({"city": state["question"]})
    turns = state.get("turns", 0) + 1
    return {"answer": f"{found} ({turns + state.get('bonus', 0)})", "turns": turns}


plain = StateGraph(State)
plain.add_node("answer", answer)
plain.add_edge(START, "answer")
plain.add_edge("answer", END)


def ask_back(state: MessagesState):
    return {"messages": [AIMessage(f"you said {interrupt('really?')}")]}


careful = (
    StateGraph(MessagesState)
    .add_node("ask", ask_back)
    .add_edge(START, "ask")
    .add_edge("ask", END)
    .compile()
)
not_an_agent = 3
