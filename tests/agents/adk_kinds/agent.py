"""One agent of each kind that google-adk has: the module attribute `kind_NAME`, built anew at each
look.

Each function below is a kind. Its first line says what is special about it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import scripted_llm
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, PrivateAttr

KINDS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {}
"""By name: what builds the agent, and what the user says, turn by turn."""


def kind(*texts: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        KINDS[build.__name__] = build, texts or ("hello",)
        return build

    return register


class Lines(BaseLlm):
    """Answers its lines (see scripted_llm) one after another; several parts with ` && `, several
    responses with ` || `."""

    model: str = "scripted"
    lines: tuple[str, ...] = ()
    _next: int = PrivateAttr(default=0)

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        line = self.lines[self._next] if self._next < len(self.lines) else "say over"
        self._next += 1
        if line == "instruction":
            line = f"say {llm_request.config.system_instruction}"
        if line == "contents":
            texts = [part.text for content in llm_request.contents for part in content.parts]
            line = f"say {texts}"
        if line == "tools":
            line = f"say {sorted(llm_request.tools_dict)}"
        for answer in line.split(" || "):
            responses = [response_of(text) for text in answer.split(" && ")]
            first = responses[0]
            for other in responses[1:]:
                first.content.parts += other.content.parts
            yield first


def response_of(line: str) -> LlmResponse:
    verb, _, rest = line.partition(" ")
    if verb == "raise":
        raise scripted_llm.problem(rest)
    if verb == "image":
        part = types.Part.from_bytes(data=b"png", mime_type="image/png")
        return LlmResponse(content=types.Content(role="model", parts=[part]))
    if verb == "partial":
        response = scripted_llm.answer("say", rest)
        response.partial = True
        return response
    if verb == "grounded":
        response = scripted_llm.answer("say", rest)
        response.grounding_metadata = types.GroundingMetadata(web_search_queries=[rest])
        return response
    if verb == "empty":
        return LlmResponse(content=types.Content(role="model", parts=[]))
    return scripted_llm.answer(verb, rest.replace("\\n", "\n"))


def llm(*lines: str, name: str = "root", **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=Lines(lines=lines), **fields)


def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


async def add_later(a: int, b: int) -> dict[str, int]:
    """Adds."""
    await asyncio.sleep(0)
    return {"sum": a + b}


ADD = 'call add {"a": 1, "b": 2}'


# --- one model ---


@kind("hello", "again")
def plain() -> Any:
    """Text only, in two turns."""
    return llm("say one", "say two")


@kind()
def thoughts() -> Any:
    """Thinks before it answers."""
    return llm("think deep")


@kind()
def text_beside_a_call() -> Any:
    """Text and a call in one event."""
    return llm(f"say let me see && {ADD}", "say 3", tools=[add])


@kind()
def thought_beside_a_call() -> Any:
    """A thought and a call in one event."""
    return llm(f"think hm && {ADD}", "say 3", tools=[add])


@kind()
def calls_at_once() -> Any:
    """Parallel calls of one response."""
    return llm(f'{ADD} && call add {{"a": 3, "b": 4}}', "say both", tools=[add])


@kind()
def several_responses() -> Any:
    """A model that answers twice to one request."""
    return llm("say first || say second")


@kind()
def streaming() -> Any:
    """Partial responses before the whole one."""
    return llm("partial on || partial e || say one")


@kind()
def nothing_said() -> Any:
    """A response without parts."""
    return llm("empty")


@kind("hello", "again")
def blocked() -> Any:
    """A model that refuses, and goes on."""
    return llm("error SAFETY blocked", "say fine")


@kind()
def blocked_after_a_call() -> Any:
    """A refusal after a tool."""
    return llm(ADD, "error RECITATION copied", tools=[add])


@kind()
def cut() -> Any:
    """A model that has no tokens left."""
    return llm("error MAX_TOKENS")


@kind()
def model_raises() -> Any:
    """The model's client raises."""
    return llm("raise odd")


@kind()
def image() -> Any:
    """An answer that is an image, beside text."""
    return llm("say see && image")


@kind()
def image_alone() -> Any:
    """An answer that is an image."""
    return llm("image")


@kind()
def grounded() -> Any:
    """Grounding metadata."""
    return llm("grounded news")


@kind()
def candidates() -> Any:
    """Several candidates asked for."""
    return llm("say one", generate_content_config=types.GenerateContentConfig(candidate_count=2))


@kind()
def plan_react() -> Any:
    """The PlanReAct planner."""
    from google.adk.planners import PlanReActPlanner

    return llm(
        f"say /*PLANNING*/ add /*ACTION*/ && {ADD}",
        "say /*REASONING*/ three /*FINAL_ANSWER*/ 3",
        planner=PlanReActPlanner(),
        tools=[add],
    )


@kind()
def built_in_planner() -> Any:
    """The planner of models that think."""
    from google.adk.planners import BuiltInPlanner

    config = types.ThinkingConfig(include_thoughts=True)
    return llm("think deep", planner=BuiltInPlanner(thinking_config=config))


# --- what a model is told ---


@kind()
def state_template() -> Any:
    """An instruction with a variable of the session's state."""
    return llm("instruction", instruction="In {city}, {absent?}.")


@kind()
def state_template_missing() -> Any:
    """A variable that nobody set."""
    return llm("instruction", instruction="In {nowhere}.")


@kind()
def instruction_provider() -> Any:
    """An instruction that is a function."""

    def instruct(context: ReadonlyContext) -> str:
        return f"In {context.state['city']}."

    return llm("instruction", instruction=instruct)


@kind()
def global_instruction() -> Any:
    """An instruction for the whole tree."""
    clerk = llm("instruction", name="clerk", description="Helps.", instruction="Help.")
    return llm("transfer clerk", global_instruction="Be kind.", sub_agents=[clerk])


@kind()
def static_instruction() -> Any:
    """An instruction that is cached."""
    return llm("instruction", static_instruction="Be still.", instruction="Be quick.")


@kind("hello", "again")
def include_contents_none() -> Any:
    """No history."""
    return llm("contents", "contents", include_contents="none")


@kind("hello", "again")
def history() -> Any:
    """All of the history."""
    return llm("contents", "contents")


@kind()
def example_tool() -> Any:
    """Examples in the instruction."""
    from google.adk.examples.example import Example
    from google.adk.tools.example_tool import ExampleTool

    example = Example(
        input=types.Content(role="user", parts=[types.Part(text="1+1")]),
        output=[types.Content(role="model", parts=[types.Part(text="2")])],
    )
    return llm("instruction", tools=[ExampleTool([example])])


# --- what comes out ---


class Sum(BaseModel):
    total: int


@kind()
def output_schema() -> Any:
    """JSON as the answer."""
    return llm('say {"total": 3}', output_schema=Sum, output_key="sum")


@kind()
def output_schema_with_tools() -> Any:
    """JSON as the answer, given by a tool of the framework."""
    return llm(ADD, 'call set_model_response {"total": 3}', output_schema=Sum, tools=[add])


@kind()
def output_schema_broken() -> Any:
    """An answer that does not fit the schema."""
    return llm("say three", output_schema=Sum, output_key="sum")


@kind()
def output_key() -> Any:
    """The answer goes into the state, and into the next agent's instruction."""
    first = llm("say three", name="first", output_key="sum")
    second = llm("instruction", name="second", instruction="The sum is {sum}.")
    return SequentialAgent(name="root", sub_agents=[first, second])


# --- tools ---


@kind()
def sync_tool() -> Any:
    """A plain function."""
    return llm(ADD, "say 3", tools=[add])


@kind()
def async_tool() -> Any:
    """A coroutine function."""
    return llm('call add_later {"a": 1, "b": 2}', "say 3", tools=[add_later])


@kind()
def tool_of_text() -> Any:
    """A tool whose response is a text."""

    def greet() -> str:
        """Greets."""
        return "hi"

    return llm("call greet", "say hi", tools=[greet])


@kind()
def tool_of_nothing() -> Any:
    """A tool without a response."""

    def rest() -> None:
        """Rests."""

    return llm("call rest", "say rested", tools=[rest])


@kind()
def tool_error() -> Any:
    """A tool that raises."""

    def boom() -> str:
        """Raises."""
        raise ValueError("broken")

    return llm("call boom", "say never", tools=[boom])


@kind()
def tool_error_answered() -> Any:
    """A tool that raises, and a callback that answers for it."""

    def boom() -> str:
        """Raises."""
        raise ValueError("broken")

    def answer(tool: Any, args: Any, tool_context: Any, error: Any) -> dict[str, str]:
        return {"error": str(error)}

    return llm("call boom", "say sorry", tools=[boom], on_tool_error_callback=answer)


@kind()
def tool_argument_missing() -> Any:
    """A call without an argument that is needed."""
    return llm('call add {"a": 1}', "say sorry", tools=[add])


@kind()
def tool_unknown() -> Any:
    """A call of a tool that does not exist."""
    return llm("call nope", "say sorry", tools=[add])


@kind()
def state_of_tools() -> Any:
    """A tool that writes the state, and one that reads it."""

    def remember(key: str, tool_context: ToolContext) -> dict[str, Any]:
        """Keeps."""
        tool_context.state[key] = "kept"
        return {"now": tool_context.state.to_dict()}

    return llm('call remember {"key": "k"}', "say kept", tools=[remember])


class Adders(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return [FunctionTool(add), FunctionTool(add_later)]


@kind()
def toolset() -> Any:
    """Tools that are listed when they are needed."""
    return llm(ADD, "tools", tools=[Adders()])


@kind()
def toolset_with_a_prefix() -> Any:
    """The same under other names."""
    toolset = Adders(tool_name_prefix="my")
    return llm('call my_add {"a": 1, "b": 2}', "tools", tools=[toolset])


@kind()
def openapi_toolset() -> Any:
    """Tools of an OpenAPI description."""
    from google.adk.tools.openapi_tool import OpenAPIToolset

    operation = {"operationId": "getPet", "responses": {"200": {"description": "ok"}}}
    description = {
        "openapi": "3.0.0",
        "info": {"title": "pets", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/pet": {"get": operation}},
    }
    return llm("tools", tools=[OpenAPIToolset(spec_dict=description)])


@kind()
def mcp_toolset() -> Any:
    """Tools of a local MCP server."""
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
    from mcp import StdioServerParameters

    server = str(Path(__file__).with_name("mcp_server.py"))
    parameters = StdioServerParameters(command=sys.executable, args=[server])
    connection = StdioConnectionParams(server_params=parameters, timeout=60)
    toolset = McpToolset(connection_params=connection)
    return llm('call double {"number": 2}', "say 4", tools=[toolset])


@kind()
def skills() -> Any:
    """Skills, which the model lists and loads."""
    from google.adk.skills import models
    from google.adk.tools.skill_toolset import SkillToolset

    matter = models.Frontmatter(name="sums", description="Adds numbers.")
    skill = models.Skill(frontmatter=matter, instructions="Add them.")
    toolset = SkillToolset([skill])
    return llm(
        "call list_skills", 'call load_skill {"skill_name": "sums"}', "say 3", tools=[toolset]
    )


@kind("hello", "go on")
def long_running_tool() -> Any:
    """A tool whose response comes later."""

    def approve() -> dict[str, str]:
        """Asks for approval."""
        return {"status": "pending"}

    return llm("call approve", "say waiting", "say fine", tools=[LongRunningFunctionTool(approve)])


@kind("hello", "a")
def user_choice() -> Any:
    """A choice of the user's."""
    from google.adk.tools.get_user_choice_tool import get_user_choice_tool

    return llm(
        'call get_user_choice {"options": ["a", "b"]}', "say which", tools=[get_user_choice_tool]
    )


@kind("hello", "yes")
def confirmation() -> Any:
    """A tool that asks for a confirmation first."""
    tool = FunctionTool(add, require_confirmation=True)
    return llm(ADD, "say 3", "say later", tools=[tool])


@kind("hello", "yes")
def confirmation_of_a_tool_context() -> Any:
    """A tool that asks for a confirmation while it runs."""

    def delete(tool_context: ToolContext) -> dict[str, str]:
        """Deletes."""
        if not tool_context.tool_confirmation:
            tool_context.request_confirmation(hint="Sure?", payload={"count": 1})
            return {"status": "asked"}
        return {"status": "done" if tool_context.tool_confirmation.confirmed else "kept"}

    return llm("call delete", "say asked", "say later", tools=[delete])


@kind("hello", "here")
def request_input() -> Any:
    """A tool of the framework that asks the user."""
    from google.adk.tools import _request_input_tool

    tool = _request_input_tool.request_input
    return llm('call adk_request_input {"message": "Who?"}', "say thanks", tools=[tool])


@kind("hello", "here")
def oauth_tool() -> Any:
    """A tool that needs the user's credential."""
    from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
    from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
    from google.adk.auth.auth_tool import AuthConfig
    from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool

    flow = OAuthFlowAuthorizationCode(
        authorizationUrl="https://a.example/auth", tokenUrl="https://a.example/token", scopes={}
    )
    credential = AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2,
        oauth2=OAuth2Auth(client_id="id", client_secret="secret"),
    )
    scheme = OAuth2(flows=OAuthFlows(authorizationCode=flow))
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=credential)
    tool = AuthenticatedFunctionTool(func=add, auth_config=config)
    return llm(ADD, "say sign in", "say later", tools=[tool])


@kind()
def code_executor() -> Any:
    """Code in the answer, which is run."""
    from google.adk.code_executors import UnsafeLocalCodeExecutor

    return llm(
        "say Here:\\n```python\\nprint(1 + 2)\\n```\\n",
        "say It is 3.",
        code_executor=UnsafeLocalCodeExecutor(),
    )


@kind("hello", "again")
def memory() -> Any:
    """Memory that is loaded before and by a call."""
    from google.adk.tools import load_memory, preload_memory

    return llm(
        'call load_memory {"query": "hello"}', "say none", "say again",
        tools=[load_memory, preload_memory],
    )  # fmt: skip


@kind("hello", "again")
def artifacts() -> Any:
    """A file that is saved and loaded."""
    from google.adk.tools import load_artifacts

    async def save(tool_context: ToolContext) -> dict[str, int]:
        """Saves."""
        return {"version": await tool_context.save_artifact("a.txt", types.Part(text="x"))}

    return llm(
        "call save", 'call load_artifacts {"artifact_names": ["a.txt"]}', "say saved", "say again",
        tools=[save, load_artifacts],
    )  # fmt: skip


# --- callbacks ---


def content(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


@kind()
def before_agent() -> Any:
    """A callback that answers in the agent's place."""
    return llm("say never", before_agent_callback=lambda callback_context: content("closed"))


@kind()
def after_agent() -> Any:
    """A callback that says more."""
    return llm("say one", after_agent_callback=lambda callback_context: content("and two"))


@kind()
def before_model() -> Any:
    """A callback that answers in the model's place."""

    def answer(callback_context: Any, llm_request: Any) -> LlmResponse:
        return LlmResponse(content=content("from a cache"))

    return llm("say never", before_model_callback=answer)


@kind()
def after_model() -> Any:
    """A callback that changes the answer."""

    def change(callback_context: Any, llm_response: Any) -> LlmResponse:
        return LlmResponse(content=content("changed"))

    return llm("say one", after_model_callback=change)


@kind()
def model_error_answered() -> Any:
    """A callback that answers when the model raises."""

    def answer(callback_context: Any, llm_request: Any, error: Any) -> LlmResponse:
        return LlmResponse(content=content("sorry"))

    return llm("raise odd", on_model_error_callback=answer)


@kind()
def before_tool() -> Any:
    """A callback that answers in the tool's place."""

    def answer(tool: Any, args: Any, tool_context: Any) -> dict[str, int]:
        return {"sum": 42}

    return llm(ADD, "say 42", tools=[add], before_tool_callback=answer)


@kind()
def after_tool() -> Any:
    """A callback that changes what a tool answered."""

    def change(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> dict[str, int]:
        return {"sum": tool_response["sum"] + 1}

    return llm(ADD, "say 4", tools=[add], after_tool_callback=change)


# --- several agents ---


@kind("hello", "again")
def transfer() -> Any:
    """Another agent answers, and goes on in the next turn."""
    clerk = llm("say from the clerk", "say again", name="clerk", description="Helps.")
    return llm("transfer clerk", sub_agents=[clerk])


@kind("hello", "again")
def transfer_back() -> Any:
    """The other agent gives the turn back."""
    clerk = llm("transfer root", name="clerk", description="Helps.")
    return llm("transfer clerk", "say back", "say again", sub_agents=[clerk])


@kind()
def transfer_to_a_peer() -> Any:
    """An agent gives the turn to its sibling."""
    clerk = llm("transfer boss", name="clerk", description="Helps.")
    boss = llm("say from the boss", name="boss", description="Decides.")
    return llm("transfer clerk", sub_agents=[clerk, boss])


@kind()
def sequential() -> Any:
    """Agents one after another."""
    parts = [llm("say one", name="one"), llm(ADD, "say two", name="two", tools=[add])]
    return SequentialAgent(name="root", sub_agents=parts)


@kind()
def parallel() -> Any:
    """Agents side by side."""
    parts = [llm("say one", name="one"), llm("say two", name="two")]
    return ParallelAgent(name="root", sub_agents=parts)


@kind()
def loop() -> Any:
    """An agent that is run again until it leaves."""
    from google.adk.tools.exit_loop_tool import exit_loop

    again = llm("say not yet", "call exit_loop", name="again", tools=[exit_loop])
    return LoopAgent(name="root", sub_agents=[again], max_iterations=5)


@kind()
def loop_to_its_limit() -> Any:
    """An agent that is run as often as it may."""
    return LoopAgent(
        name="root", sub_agents=[llm("say one", "say two", name="again")], max_iterations=2
    )


@kind()
def agent_tool() -> Any:
    """An agent as a tool of another."""
    clerk = llm("say forty two", name="clerk", description="Helps.")
    return llm('call clerk {"request": "sum"}', "say 42", tools=[AgentTool(clerk)])


@kind()
def agent_tool_that_answers() -> Any:
    """An agent as a tool whose response is the answer."""
    clerk = llm("say forty two", name="clerk", description="Helps.")
    tool = AgentTool(clerk, skip_summarization=True)
    return llm('call clerk {"request": "sum"}', tools=[tool])


@kind()
def single_turn() -> Any:
    """A sub-agent that does one thing and returns."""
    clerk = llm(
        "say forty two", name="clerk", description="Helps.", instruction="Help.", mode="single_turn"
    )
    return llm('call clerk {"request": "sum"}', "say 42", sub_agents=[clerk])


@kind()
def single_turn_without_instruction() -> Any:
    """The same without an instruction, which ADK's evaluation cannot record."""
    clerk = llm("say forty two", name="clerk", description="Helps.", mode="single_turn")
    return llm('call clerk {"request": "sum"}', "say 42", sub_agents=[clerk])


@kind("hello", "two")
def task() -> Any:
    """A sub-agent that talks to the user until its task is finished."""
    clerk = llm(
        "say how many", 'call finish_task {"result": "2"}', name="clerk", description="Helps.",
        mode="task",
    )  # fmt: skip
    return llm('call clerk {"request": "count"}', "say two it is", sub_agents=[clerk])


class Custom(BaseAgent):
    texts: tuple[str, ...] = ()
    author: str = ""

    async def _run_async_impl(self, context: Any) -> AsyncGenerator[Event, None]:
        for text in self.texts:
            yield Event(
                author=self.author or self.name,
                invocation_id=context.invocation_id,
                content=content(text),
                actions=EventActions(state_delta={"said": text}),
            )


@kind()
def custom() -> Any:
    """An agent without a model."""
    return Custom(name="root", texts=("one", "two"))


@kind()
def custom_in_the_users_name() -> Any:
    """An agent whose events are the user's."""
    return Custom(name="root", texts=("one",), author="user")


@kind()
def custom_that_is_silent() -> Any:
    """An agent without events, of which ADK makes no turn."""
    return Custom(name="root")


@kind()
def yaml_config() -> Any:
    """An agent that is a YAML file."""
    from google.adk.agents import config_agent_utils

    path = str(Path(__file__).with_name("root_agent.yaml"))
    agent = config_agent_utils.from_config(path)
    agent.model = Lines(lines=("instruction",))
    return agent


# --- workflows ---


def node_one(node_input: Any) -> str:
    return "one"


def node_two(node_input: Any) -> str:
    return f"{node_input} and two"


@kind()
def workflow() -> Any:
    """Functions one after another."""
    from google.adk.workflow import Workflow

    return Workflow(name="root", edges=[("START", node_one, node_two)])


@kind()
def workflow_with_agents() -> Any:
    """A function, and agents with models."""
    from google.adk.workflow import Workflow

    first = llm(ADD, "say three", name="first", instruction="Add.", tools=[add])
    second = llm("say done", name="second", instruction="End.")
    return Workflow(name="root", edges=[("START", node_one, first, second)])


@kind()
def workflow_with_routes() -> Any:
    """A function that chooses the way."""
    from google.adk.workflow import Workflow

    def choose(node_input: Any) -> Event:
        return Event(route="left")

    left, right = (llm(f"say {side}", name=side, instruction="Go.") for side in ("left", "right"))
    ways = {"left": left, "right": right}
    return Workflow(name="root", edges=[("START", choose), (choose, ways)])


@kind()
def workflow_that_joins() -> Any:
    """Two ways side by side, and one that waits for both."""
    from google.adk.workflow import JoinNode, Workflow

    def last(node_input: Any) -> str:
        return str(sorted(map(str, dict(node_input).values())))

    join = JoinNode(name="both")
    edges = [("START", (node_one, node_two)), ((node_one, node_two), join), (join, last)]
    return Workflow(name="root", edges=edges)


@kind()
def workflow_in_a_workflow() -> Any:
    """A workflow as a node."""
    from google.adk.workflow import Workflow

    inner = Workflow(name="inner", edges=[("START", node_two)])
    return Workflow(name="root", edges=[("START", node_one, inner)])


@kind("hello", "yes")
def workflow_with_human_input() -> Any:
    """A node that asks the user and waits."""
    from google.adk.events.request_input import RequestInput
    from google.adk.workflow import Workflow

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="ask", message="Go on?")

    def tell(node_input: Any) -> Event:
        return Event(author="root", content=content(f"it was {node_input}"))

    return Workflow(name="root", edges=[("START", node_one, ask, tell)])


@kind()
def workflow_that_raises() -> Any:
    """A node that raises."""
    from google.adk.workflow import Workflow

    def boom(node_input: Any) -> str:
        raise ValueError("broken")

    return Workflow(name="root", edges=[("START", boom)])


# --- apps ---


def app_of(agent: Any, **fields: Any) -> Any:
    from google.adk.apps.app import App

    return App(name="app", root_agent=agent, **fields)


@kind()
def app() -> Any:
    """An App around an agent."""
    return app_of(llm(ADD, "say 3", tools=[add]))


@kind()
def app_with_plugins() -> Any:
    """A plugin that answers for a tool, and one that changes the answer."""
    from google.adk.plugins.base_plugin import BasePlugin

    class Plugin(BasePlugin):
        async def before_tool_callback(self, **_: Any) -> dict[str, int]:
            return {"sum": 42}

        async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
            return event.model_copy(update={"author": "plugin"}) if event.content else None

    return app_of(llm(ADD, "say 42", tools=[add]), plugins=[Plugin("mine")])


@kind()
def app_with_a_plugin_that_answers() -> Any:
    """A plugin that ends the turn before it begins."""
    from google.adk.plugins.base_plugin import BasePlugin

    class Plugin(BasePlugin):
        async def before_run_callback(self, *, invocation_context: Any) -> Any:
            return content("closed")

    return app_of(llm("say never"), plugins=[Plugin("mine")])


@kind()
def app_with_a_global_instruction() -> Any:
    """The plugin for an instruction of the whole tree."""
    from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin

    return app_of(llm("instruction"), plugins=[GlobalInstructionPlugin("Be kind.")])


@kind()
def app_that_retries_tools() -> Any:
    """The plugin that lets a model try a failing tool again."""
    from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin

    attempts = []

    def flaky() -> str:
        """Raises once."""
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("broken")
        return "fine"

    plugins = [ReflectAndRetryToolPlugin()]
    return app_of(llm("call flaky", "call flaky", "say fine", tools=[flaky]), plugins=plugins)


@kind("one", "two", "three", "four")
def app_that_compacts() -> Any:
    """Events that are summarized."""
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.apps.llm_event_summarizer import LlmEventSummarizer

    summarizer = LlmEventSummarizer(llm=Lines(lines=("say short", "say shorter")))
    config = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=0)
    return app_of(llm(*["contents"] * 4), events_compaction_config=config)


@kind("hello", "again")
def app_that_resumes() -> Any:
    """An App whose turns can be resumed."""
    from google.adk.apps.app import ResumabilityConfig

    parts = [llm("say one", "say three", name="one"), llm("say two", "say four", name="two")]
    agent = SequentialAgent(name="root", sub_agents=parts)
    return app_of(agent, resumability_config=ResumabilityConfig(is_resumable=True))


@kind()
def app_with_a_cache() -> Any:
    """An App with a cache of contexts."""
    from google.adk.agents.context_cache_config import ContextCacheConfig

    return app_of(llm("say one"), context_cache_config=ContextCacheConfig())


def __getattr__(name: str) -> Any:
    if name.startswith("kind_") and name[5:] in KINDS:
        return KINDS[name[5:]][0]()
    raise AttributeError(name)


root_agent = llm("say root")
