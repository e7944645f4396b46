"""ADK's EvalCase and what belongs to it, as written in evaluation files."""

from __future__ import annotations

import functools
from sys import intern
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from evalgate.errors import Place
from evalgate.model import Case, ConversationScenario, Persona, PersonaBehavior, SessionInput
from evalgate.text import words
from evalgate.wire.invocations import InvocationWire, RubricWire
from evalgate.wire.shapes import Wire

BUILT_IN_PERSONAS = ("EXPERT", "NOVICE", "EVALUATOR")
_OPEN = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
)


class SessionInputWire(Wire):
    """ADK's SessionInput; ADK keeps unknown keys here and reads none of them."""

    model_config = _OPEN

    app_name: str
    user_id: str
    session_id: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)

    def noun(self) -> SessionInput:
        """The session that a case starts from."""
        if not self.state:
            return _stateless(self.app_name, self.user_id, self.session_id)
        return SessionInput(
            app_name=intern(self.app_name), user_id=intern(self.user_id), session_id=self.session_id, state=self.state
        )


@functools.lru_cache(maxsize=256)
def _stateless(app_name: str, user_id: str, session_id: str | None) -> SessionInput:
    """All cases of a file mostly start from the same session: one value for all of them."""
    return SessionInput(app_name=app_name, user_id=user_id, session_id=session_id)


class PersonaBehaviorWire(Wire):
    """ADK's UserBehavior."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class PersonaWire(Wire):
    """ADK's UserPersona."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    description: str
    behaviors: list[PersonaBehaviorWire]

    def noun(self) -> Persona:
        """The persona."""
        behaviors = tuple(
            PersonaBehavior(
                name=behavior.name,
                description=behavior.description,
                instructions=tuple(behavior.behavior_instructions),
                violation_rubrics=tuple(behavior.violation_rubrics),
            )
            for behavior in self.behaviors
        )
        return Persona(persona_id=self.id, description=self.description, behaviors=behaviors)


class ScenarioWire(Wire):
    """ADK's ConversationScenario; a persona is the id of a built-in one, or written out."""

    starting_prompt: str
    conversation_plan: str
    user_persona: str | PersonaWire | None = None

    @field_validator("user_persona")
    @classmethod
    def _known(cls, persona: str | PersonaWire | None) -> str | PersonaWire | None:
        if isinstance(persona, str) and persona not in BUILT_IN_PERSONAS:
            near = words.nearest(persona, BUILT_IN_PERSONAS)
            raise PydanticCustomError(
                "unknown_persona",
                "`{found}` is not a built-in persona; ADK has {known}",
                {"found": persona[:60], "known": words.listed(BUILT_IN_PERSONAS), "near": near or ""},
            )
        return persona

    def noun(self) -> ConversationScenario:
        """The scenario."""
        persona = self.user_persona
        return ConversationScenario(
            starting_prompt=self.starting_prompt,
            conversation_plan=self.conversation_plan,
            persona=Persona(persona_id=persona) if isinstance(persona, str) else persona.noun() if persona else None,
        )


class EvalCaseWire(Wire):
    """ADK's EvalCase; ADK keeps unknown keys here and reads none of them."""

    model_config = _OPEN

    eval_id: str
    conversation: list[InvocationWire] | None = None
    conversation_scenario: ScenarioWire | None = None
    session_input: SessionInputWire | None = None
    creation_timestamp: float = 0.0
    rubrics: list[RubricWire] | None = None
    final_session_state: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> EvalCaseWire:
        if self.conversation is None and self.conversation_scenario is None:
            raise PydanticCustomError(
                "no_conversation", "the case has neither a `conversation` nor a `conversation_scenario`"
            )
        if self.conversation is not None and self.conversation_scenario is not None:
            raise PydanticCustomError(
                "two_conversations", "the case has both a `conversation` and a `conversation_scenario`; ADK takes one"
            )
        return self

    def noun(self, *, place: Place | None = None) -> Case:
        """The case. An empty `final_session_state` expects nothing: ADK writes one into every case."""
        turns = self.conversation
        return Case(
            case_id=self.eval_id,
            conversation=tuple(turn.noun() for turn in turns) if turns is not None else None,
            scenario=self.conversation_scenario.noun() if self.conversation_scenario else None,
            session=self.session_input.noun() if self.session_input else None,
            rubrics=tuple(rubric.noun() for rubric in self.rubrics or ()),
            expects_state=self.final_session_state or None,
            place=place,
        )
