"""The shapes of the plug-in families: what one file of each must offer."""

from evalgate.plugins.agents import (
    Agent,
    AgentDriver,
    AgentFailed,
    AgentLimits,
    AgentSetting,
    Conversation,
    MetricRunner,
)
from evalgate.plugins.reports import Renderer
from evalgate.plugins.simulation import (
    Message,
    SimulatorFailure,
    SimulatorServices,
    SimulatorSpec,
    Stop,
    UserSimulator,
)
from evalgate.plugins.tools import (
    AskedCall,
    CallKind,
    Replied,
    RunTool,
    ToolAnswer,
    ToolError,
    ToolHandling,
    ToolMode,
    ToolReply,
    ToolSource,
    TrialTools,
    Unmatched,
)
from evalgate.plugins.watching import SilentWatcher, Watcher

__all__ = [
    "Agent",
    "AgentDriver",
    "AgentFailed",
    "AgentLimits",
    "AgentSetting",
    "AskedCall",
    "CallKind",
    "Conversation",
    "Message",
    "MetricRunner",
    "Renderer",
    "Replied",
    "RunTool",
    "SilentWatcher",
    "SimulatorFailure",
    "SimulatorServices",
    "SimulatorSpec",
    "Stop",
    "ToolAnswer",
    "ToolError",
    "ToolHandling",
    "ToolMode",
    "ToolReply",
    "ToolSource",
    "TrialTools",
    "Unmatched",
    "UserSimulator",
    "Watcher",
]
