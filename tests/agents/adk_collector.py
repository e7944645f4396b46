"""An agent with settings of its own for Python's garbage collector."""

import gc

from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

gc.disable()
gc.set_threshold(5000)


def collector(_: str = "") -> dict:
    """The settings."""
    return {"enabled": gc.isenabled(), "threshold": gc.get_threshold()[0]}


root_agent = LlmAgent(name="collector", model=ScriptedLlm(), tools=[collector])
