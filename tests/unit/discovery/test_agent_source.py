"""Whether source offers an agent, without importing it."""

import pytest
from hypothesis import given, strategies as st

from evalgate.discovery.agents import offers_agent


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("root_agent = Agent(name='x')", True),
        ("root_agent: Agent = build()", True),
        ("from .agent import root_agent", True),
        ("from .core import main_agent as root_agent", True),
        ("async def get_agent_async(): ...", True),
        ("if FLAG:\n    root_agent = a\nelse:\n    root_agent = b", True),
        ("try:\n    root_agent = a\nexcept ImportError:\n    raise", True),
        ("root_agent, other = build()", True),
        ("from google.adk.apps import App\napp = App(root_agent=x)", True),
        ("from .agent import app", True),  # what ADK's own templates write
        ("from flask import Flask\napp = Flask('root')", False),  # an app of another framework
        ("from .server import app", False),
        ("# root_agent is defined elsewhere", False),
        ("'''the root_agent'''", False),
        # not at the module's own level
        ("def build():\n    root_agent = 1\n    return root_agent", False),
        ("from . import agent", False),  # agent.py beside it says itself
        ("print 'python 2'; root_agent = 1", True),  # not our Python: judged by its words
        ("import google.adk", False),
        ("", False),
        ("\x00root_agent = 1", True),
    ],
)
def test_what_counts_as_an_agent(source, expected):
    assert offers_agent(source) is expected


@given(st.text())
def test_no_source_makes_it_fail(source):
    assert offers_agent("root_agent" + source) in (True, False)
