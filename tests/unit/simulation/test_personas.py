"""The built-in personas: ADK's ids and habits, whole, and filled with the stop signal."""

from __future__ import annotations

import pytest

from evalgate.formats.adk_shapes import BUILT_IN_PERSONAS
from evalgate.model import Persona, PersonaBehavior
from evalgate.simulation import personas


def test_they_are_the_ones_that_evaluation_files_may_name():
    assert tuple(personas.BUILT_IN) == BUILT_IN_PERSONAS
    assert all(name == persona.persona_id for name, persona in personas.BUILT_IN.items())


@pytest.mark.parametrize("persona", personas.BUILT_IN.values(), ids=personas.BUILT_IN)
def test_every_habit_says_how_it_is_lived_and_how_it_is_broken(persona):
    assert persona.description
    assert len(persona.behaviors) >= 5
    for behavior in persona.behaviors:
        assert behavior.name
        assert behavior.description
        assert behavior.behavior_instructions
        assert behavior.violation_rubrics


def test_only_the_expert_corrects_and_helps_out_and_only_the_novice_answers_everything():
    habits = {
        name: {each.name for each in persona.behaviors}
        for name, persona in personas.BUILT_IN.items()
    }
    expert, novice, evaluator = habits["EXPERT"], habits["NOVICE"], habits["EVALUATOR"]
    assert expert - novice - evaluator == {
        "Corrects mistakes",
        "Helps out once",
        "Ends in time, after a second failure at the latest",
        "Speaks like a specialist",
    }
    assert novice - evaluator == {"Asks for goals only", "Answers every question"}
    assert evaluator - novice == {"Asks with all details", "Answers what matters to the plan"}


def test_the_stop_signal_is_filled_in_and_nothing_else():
    for persona in personas.BUILT_IN.values():
        for text in (
            personas.describe(persona, stop_signal="<BYE>", to_judge=False),
            personas.describe(persona, stop_signal="<BYE>", to_judge=True),
        ):
            assert "<BYE>" in text
            assert "{{" not in text
    own = Persona(
        persona_id="me",
        description="Says {{stop_signal}} and {{ other }}.",
        behaviors=(
            PersonaBehavior(
                name="n", description="d", behavior_instructions=("i",), violation_rubrics=("v",)
            ),
        ),
    )
    assert (
        personas.describe(own, stop_signal="\\1", to_judge=False)
        == "Says \\1 and {{ other }}.\n\n## n\nd\n- i"
    )
    assert personas.describe(own, stop_signal="X", to_judge=True).endswith("- v")


def test_a_written_persona_is_kept_even_under_a_built_in_name():
    assert personas.resolve(Persona(persona_id="NOVICE")) is personas.BUILT_IN["NOVICE"]
    own = Persona(persona_id="NOVICE", description="Mine.")
    assert personas.resolve(own) is own
