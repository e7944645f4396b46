"""Agents of frameworks other than ADK: one driver each. Their workers load Python objects."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pydantic import Field

from evalgate.agents.python import CallOptions, PythonDriver

HOSTS = Path(__file__).parent / "worker"
"""The folder of the adapters, which run in the agents' processes."""


class FrameworkDriver(PythonDriver):
    """The agents of a framework."""

    def __init__(
        self,
        name: str,
        about: str,
        framework: str,
        *makers: str,
        package: str = "",
        modules: Collection[str] = (),
        parts: Collection[str] = (),
        options: type[CallOptions] = CallOptions,
    ) -> None:
        """`name`: also that of its worker's module, and of its package if it has no other.
        `framework`: its Python module. `about`: for docs/agents/frameworks.md."""
        self.__doc__ = about
        self.name = name
        self.host = str(HOSTS / name.replace("-", "_"))
        """The path of its adapter, without `.py`."""
        self.framework = framework
        """The module that an agent's source imports."""
        self.makers = frozenset(makers)
        self.package = package or name
        """In the package index."""
        self.modules = frozenset(modules or framework.split(".")[:1])
        self.parts = frozenset(parts)
        self.options = options


class FrameworkOptions(CallOptions):
    """The agent, its further inputs, and its environment."""

    call: str = Field(
        pattern=r"^[\w.-]+:[\w.]+$",
        description="module:agent, or module:function that makes the agent.",
    )
    context: str | None = Field(
        default=None,
        pattern=r"^[\w.-]+:[\w.]+$",
        description="module:object, or module:function called once a case.",
    )


class GraphOptions(FrameworkOptions):
    """FrameworkOptions, and the state's keys of a graph's input and answer."""

    input: str = Field(
        default="messages", description="Key of the graph's state that takes the user's text."
    )
    output: str = Field(
        default="messages", description="Key of the graph's state that holds the answer."
    )


class TaskOptions(CallOptions):
    """CallOptions, and the input of a crew for the user's text."""

    input: str | None = Field(
        default=None, description="Input of the crew's tasks that takes the user's text."
    )


DRIVERS = (
    FrameworkDriver(
        "langgraph",
        "Graphs of LangGraph, and the agents that LangChain makes of them",
        "langgraph",
        *("compile", "create_react_agent", "create_agent", "create_supervisor"),
        "CompiledStateGraph",
        package="langchain",
        modules=("langgraph", "langchain"),
        options=GraphOptions,
    ),
    FrameworkDriver(
        "pydantic-ai", "Agents of Pydantic AI", "pydantic_ai", "Agent", options=FrameworkOptions
    ),
    FrameworkDriver(
        "openai-agents",
        "Agents of the OpenAI Agents SDK",
        "agents",
        "Agent",
        options=FrameworkOptions,
    ),
    FrameworkDriver(
        "smolagents",
        "Agents of smolagents",
        "smolagents",
        *("CodeAgent", "ToolCallingAgent", "MultiStepAgent"),
    ),
    FrameworkDriver("strands", "Agents of Strands", "strands", "Agent", package="strands-agents"),
    FrameworkDriver(
        "llama-index",
        "Agents and agent workflows of LlamaIndex",
        "llama_index.core",
        *("FunctionAgent", "ReActAgent", "CodeActAgent", "AgentWorkflow"),
        "from_tools_or_functions",
    ),
    FrameworkDriver(
        "autogen",
        "Agents and teams of AutoGen's AgentChat",
        "autogen_agentchat",
        *("AssistantAgent", "RoundRobinGroupChat", "SelectorGroupChat", "Swarm"),
        *("MagenticOneGroupChat", "GraphFlow"),
        package="autogen-agentchat",
    ),
    FrameworkDriver(
        "agent-framework",
        "Agents of the Microsoft Agent Framework",
        "agent_framework",
        *("Agent", "ChatAgent", "create_agent", "as_agent", "build"),
    ),
    FrameworkDriver(
        "crewai",
        "Crews and agents of CrewAI",
        "crewai",
        *("Crew", "CrewBase", "Agent"),
        options=TaskOptions,
    ),
    FrameworkDriver(
        "semantic-kernel",
        "Agents of Semantic Kernel",
        "semantic_kernel",
        *("ChatCompletionAgent", "OpenAIResponsesAgent", "AzureResponsesAgent"),
        parts=("Kernel",),
    ),
)
"""Rows of the table of drivers."""
