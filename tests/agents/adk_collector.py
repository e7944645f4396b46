"""An agent that makes garbage when it is imported, and has settings of its own for its
collector."""

import gc
import weakref

from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm


class Node:
    """One of a circle."""


def circle() -> Node:
    """A node that needs itself."""
    node = Node()
    node.node = node
    return node


first = weakref.ref(circle())
for _ in range(200_000):
    circle()
gc.disable()
gc.set_threshold(5000)


def collector(_: str = "") -> dict:
    """The settings, and whether the garbage of the import is gone."""
    return {
        "collected": first() is None,
        "enabled": gc.isenabled(),
        "threshold": gc.get_threshold()[0],
    }


root_agent = LlmAgent(name="collector", model=ScriptedLlm(), tools=[collector])
