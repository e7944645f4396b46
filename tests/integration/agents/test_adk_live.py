"""A turn that somebody watches: what comes while it runs, in both ends of the supported range of
google-adk, and that it changes nothing of what is scored."""

from __future__ import annotations

import pytest
from builders.nightly import ADKS

from evalgate.agents.protocol import ArtifactMessage, EventMessage, TraceMessage
from evalgate.agents.worker_process import Step
from evalgate.model import Case, Content, Text, TrialKey
from tests.integration.agents.line_client import adk_python

pytestmark = pytest.mark.integration


def talk(agent, script: str, hear=None):
    case = Case(case_id="c", conversation=())
    with agent.converse(case, TrialKey(suite="s", case_id="c")) as conversation:
        if hear is not None:
            conversation.listen(hear)
        return conversation.send(Content(role="user", parts=(Text(text=script),)))


@pytest.mark.parametrize("which", ADKS)
def test_words_come_one_by_one_and_the_turn_is_the_same(opened, which: str) -> None:
    agent = opened("adk", {"path": "adk_full", "python": adk_python(which)})
    script = 'call add {"a": 2, "b": 3}\nsay one two three'
    steps: list[Step] = []
    live = talk(agent, script, steps.append)
    partial = [step for step in steps if isinstance(step, EventMessage) and step.partial]
    assert [step.step().content.parts[0].text for step in partial if step.content] == [
        "one ",
        "two ",
        "three",
    ]
    quiet = talk(agent, script)
    assert live.final_response == quiet.final_response
    for turn in (live, quiet):
        assert [(call.name, call.args) for call in turn.tool_calls] == [("add", {"a": 2, "b": 3})]
    assert len(live.events) == len(quiet.events) == 3
    assert quiet.state is None
    assert live.state is not None
    kinds = {step.entry.get("kind") for step in steps if isinstance(step, TraceMessage)}
    assert {"agents", "model", "tool", "event"} <= kinds


def test_an_artifact_comes_with_its_content_and_a_question_with_its_id(opened) -> None:
    agent = opened("adk", {"path": "adk_chat", "python": adk_python("new")})
    steps: list[Step] = []
    talk(agent, 'call draw {"name": "map.png"}\ncall pay {"amount": 3}\nsay paid', steps.append)
    (artifact,) = [step for step in steps if isinstance(step, ArtifactMessage)]
    assert (artifact.name, artifact.version) == ("map.png", 0)
    assert artifact.part is not None
    assert artifact.part["inline_data"]["mime_type"] == "image/png"
    asked = [
        step.entry["long_running_tool_ids"]
        for step in steps
        if isinstance(step, TraceMessage) and "long_running_tool_ids" in step.entry
    ]
    assert len(asked) == 1
