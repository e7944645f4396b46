import contextlib
import sys

from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm


async def get_agent_async():
    stack = contextlib.AsyncExitStack()
    stack.callback(lambda: print("the stack was closed", file=sys.stderr))
    return LlmAgent(name="made_async", model=ScriptedLlm()), stack
