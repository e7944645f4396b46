"""An agent to talk to."""

from . import agent

__all__ = ["agent"]
