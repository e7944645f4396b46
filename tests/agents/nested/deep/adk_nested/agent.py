import agent.words
import nested.deep.adk_nested.words
from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

import adk_nested.words
from . import words

assert words.WORD is adk_nested.words.WORD is nested.deep.adk_nested.words.WORD is agent.words.WORD
root_agent = LlmAgent(name="nested", model=ScriptedLlm())
