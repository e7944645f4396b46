"""Tools for everything that an agent may do to its worker, and a helper to transfer to."""

from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

from adk_full import tools

helper = LlmAgent(
    name="helper", description="Helps.", model=ScriptedLlm(), instruction="Help.", tools=[tools.add]
)
root_agent = LlmAgent(
    name="full",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=[
        tools.add,
        tools.remember,
        tools.recall,
        tools.save_file,
        tools.list_files,
        tools.shout,
        tools.leave,
        tools.kill,
        tools.boom,
        tools.odd,
        tools.nap,
        tools.block,
    ],
    sub_agents=[helper],
)
