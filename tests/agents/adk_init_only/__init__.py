from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

root_agent = LlmAgent(name="init_only", model=ScriptedLlm())
agent = root_agent  # an agent, not a module: must not be mistaken for one
