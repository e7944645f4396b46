"""The shapes of the plug-in families: what one file of each must offer."""

from evalgate.plugins.reports import Renderer
from evalgate.plugins.simulation import Message, SimulatorFailure, SimulatorServices, SimulatorSpec, Stop, UserSimulator
from evalgate.plugins.watching import SilentWatcher, Watcher

__all__ = [
    "Message",
    "Renderer",
    "SilentWatcher",
    "SimulatorFailure",
    "SimulatorServices",
    "SimulatorSpec",
    "Stop",
    "UserSimulator",
    "Watcher",
]
