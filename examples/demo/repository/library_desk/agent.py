"""The agent: an instruction, five tools and a model."""

from pathlib import Path

from google.adk.agents import LlmAgent

from . import desk
from .scripted_model import ScriptedModel

root_agent = LlmAgent(
    name="library_desk",
    description="Helps readers at the desk of a public library.",
    model=ScriptedModel(model="scripted"),
    instruction=Path(__file__).with_name("instruction.txt").read_text(encoding="utf-8"),
    tools=[
        desk.search_catalogue,
        desk.check_availability,
        desk.place_hold,
        desk.renew_loan,
        desk.opening_hours,
    ],
)
