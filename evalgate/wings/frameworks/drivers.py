"""Agents of frameworks other than ADK: one driver each. Their workers load Python objects."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from evalgate.agents.python import CallOptions, PythonDriver

HOSTS = Path(__file__).parent / "worker"


class FrameworkDriver(PythonDriver):
    """A framework. Its worker's module, its package and its Python module are named after it, if
    its class has no other names."""

    def __init_subclass__(cls) -> None:
        cls.host = str(HOSTS / cls.name.replace("-", "_"))
        cls.package = cls.package or cls.name
        cls.modules = cls.modules or frozenset({cls.framework.partition(".")[0]})


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


class LangGraphOptions(FrameworkOptions):
    """FrameworkOptions, and the state's keys of a graph's input and answer."""

    input: str = Field(
        default="messages", description="Key of the graph's state that takes the user's text."
    )
    output: str = Field(
        default="messages", description="Key of the graph's state that holds the answer."
    )


class LangGraphDriver(FrameworkDriver):
    """Graphs of LangGraph, and the agents that LangChain makes of them."""

    name = "langgraph"
    package = "langchain"
    framework = "langgraph"
    modules = frozenset({"langgraph", "langchain"})
    makers = frozenset(
        {"compile", "create_react_agent", "create_agent", "create_supervisor", "CompiledStateGraph"}
    )
    options = LangGraphOptions


class PydanticAIDriver(FrameworkDriver):
    """Agents of Pydantic AI."""

    name = "pydantic-ai"
    framework = "pydantic_ai"
    makers = frozenset({"Agent"})
    options = FrameworkOptions


class OpenAIAgentsDriver(FrameworkDriver):
    """Agents of the OpenAI Agents SDK."""

    name = "openai-agents"
    framework = "agents"
    makers = frozenset({"Agent"})
    options = FrameworkOptions


class SmolagentsDriver(FrameworkDriver):
    """Agents of smolagents."""

    name = "smolagents"
    framework = "smolagents"
    makers = frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"})


class StrandsDriver(FrameworkDriver):
    """Agents of Strands."""

    name = "strands"
    package = "strands-agents"
    framework = "strands"
    makers = frozenset({"Agent"})


class LlamaIndexDriver(FrameworkDriver):
    """Agents and agent workflows of LlamaIndex."""

    name = "llama-index"
    framework = "llama_index.core"
    makers = frozenset(
        {
            "FunctionAgent",
            "ReActAgent",
            "CodeActAgent",
            "AgentWorkflow",
            "from_tools_or_functions",
        }
    )


class AutoGenDriver(FrameworkDriver):
    """Agents and teams of AutoGen's AgentChat."""

    name = "autogen"
    package = "autogen-agentchat"
    framework = "autogen_agentchat"
    makers = frozenset(
        {
            "AssistantAgent",
            "RoundRobinGroupChat",
            "SelectorGroupChat",
            "Swarm",
            "MagenticOneGroupChat",
            "GraphFlow",
        }
    )


class AgentFrameworkDriver(FrameworkDriver):
    """Agents of the Microsoft Agent Framework."""

    name = "agent-framework"
    framework = "agent_framework"
    makers = frozenset({"Agent", "ChatAgent", "create_agent", "as_agent", "build"})


class CrewAIOptions(CallOptions):
    """CallOptions, and the input of a crew for the user's text."""

    input: str | None = Field(
        default=None, description="Input of the crew's tasks that takes the user's text."
    )


class CrewAIDriver(FrameworkDriver):
    """Crews and agents of CrewAI."""

    name = "crewai"
    framework = "crewai"
    makers = frozenset({"Crew", "CrewBase", "Agent"})
    options = CrewAIOptions


class SemanticKernelDriver(FrameworkDriver):
    """Agents of Semantic Kernel."""

    name = "semantic-kernel"
    framework = "semantic_kernel"
    makers = frozenset({"ChatCompletionAgent", "OpenAIResponsesAgent", "AzureResponsesAgent"})
    parts = frozenset({"Kernel"})


DRIVERS = (
    LangGraphDriver(),
    PydanticAIDriver(),
    OpenAIAgentsDriver(),
    SmolagentsDriver(),
    StrandsDriver(),
    LlamaIndexDriver(),
    AutoGenDriver(),
    AgentFrameworkDriver(),
    CrewAIDriver(),
    SemanticKernelDriver(),
)
