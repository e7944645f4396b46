"""Agents of frameworks other than ADK: one driver each. Their workers load Python objects."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from evalgate.agents.python import CallOptions, PythonDriver

HOSTS = Path(__file__).parent / "worker"


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


class LangGraphDriver(PythonDriver):
    """Graphs of LangGraph, and the agents that LangChain makes of them."""

    name = "langgraph"
    package = "langchain"
    host = str(HOSTS / "langgraph")
    framework = "langgraph"
    modules = frozenset({"langgraph", "langchain"})
    makers = frozenset(
        {"compile", "create_react_agent", "create_agent", "create_supervisor", "CompiledStateGraph"}
    )
    options = LangGraphOptions


class PydanticAIDriver(PythonDriver):
    """Agents of Pydantic AI."""

    name = "pydantic-ai"
    package = "pydantic-ai"
    host = str(HOSTS / "pydantic_ai")
    framework = "pydantic_ai"
    modules = frozenset({"pydantic_ai"})
    makers = frozenset({"Agent"})
    options = FrameworkOptions


class OpenAIAgentsDriver(PythonDriver):
    """Agents of the OpenAI Agents SDK."""

    name = "openai-agents"
    package = "openai-agents"
    host = str(HOSTS / "openai_agents")
    framework = "agents"
    modules = frozenset({"agents"})
    makers = frozenset({"Agent"})
    options = FrameworkOptions


class SmolagentsDriver(PythonDriver):
    """Agents of smolagents."""

    name = "smolagents"
    package = "smolagents"
    host = str(HOSTS / "smolagents")
    framework = "smolagents"
    modules = frozenset({"smolagents"})
    makers = frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"})
    options = CallOptions


class StrandsDriver(PythonDriver):
    """Agents of Strands."""

    name = "strands"
    package = "strands-agents"
    host = str(HOSTS / "strands")
    framework = "strands"
    modules = frozenset({"strands"})
    makers = frozenset({"Agent"})
    options = CallOptions


class LlamaIndexDriver(PythonDriver):
    """Agents and agent workflows of LlamaIndex."""

    name = "llama-index"
    package = "llama-index"
    host = str(HOSTS / "llama_index")
    framework = "llama_index.core"
    modules = frozenset({"llama_index"})
    makers = frozenset(
        {
            "FunctionAgent",
            "ReActAgent",
            "CodeActAgent",
            "AgentWorkflow",
            "from_tools_or_functions",
        }
    )
    options = CallOptions


class AutoGenDriver(PythonDriver):
    """Agents and teams of AutoGen's AgentChat."""

    name = "autogen"
    package = "autogen-agentchat"
    host = str(HOSTS / "autogen")
    framework = "autogen_agentchat"
    modules = frozenset({"autogen_agentchat"})
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
    options = CallOptions


class AgentFrameworkDriver(PythonDriver):
    """Agents of the Microsoft Agent Framework."""

    name = "agent-framework"
    package = "agent-framework"
    host = str(HOSTS / "agent_framework")
    framework = "agent_framework"
    modules = frozenset({"agent_framework"})
    makers = frozenset({"Agent", "ChatAgent", "create_agent", "as_agent", "build"})
    options = CallOptions


class CrewAIOptions(CallOptions):
    """CallOptions, and the input of a crew for the user's text."""

    input: str | None = Field(
        default=None, description="Input of the crew's tasks that takes the user's text."
    )


class CrewAIDriver(PythonDriver):
    """Crews and agents of CrewAI."""

    name = "crewai"
    package = "crewai"
    host = str(HOSTS / "crewai")
    framework = "crewai"
    modules = frozenset({"crewai"})
    makers = frozenset({"Crew", "CrewBase", "Agent"})
    options = CrewAIOptions


class SemanticKernelDriver(PythonDriver):
    """Agents of Semantic Kernel."""

    name = "semantic-kernel"
    package = "semantic-kernel"
    host = str(HOSTS / "semantic_kernel")
    framework = "semantic_kernel"
    modules = frozenset({"semantic_kernel"})
    makers = frozenset({"ChatCompletionAgent", "OpenAIResponsesAgent", "AzureResponsesAgent"})
    options = CallOptions


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
