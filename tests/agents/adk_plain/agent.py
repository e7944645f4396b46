from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

root_agent = LlmAgent(name="plain", model=ScriptedLlm())
