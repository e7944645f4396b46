"""The keys of every object in an evaluation file, the other names that people give them, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalgate import words
from evalgate.wire.cases import EvalCaseWire, ScenarioWire, SessionInputWire
from evalgate.wire.contents import ContentWire, FunctionCallWire, FunctionResponseWire, PartWire
from evalgate.wire.invocations import IntermediateDataWire, InvocationWire, RubricWire
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_camel, to_snake

REJECTED = "ADK itself rejects this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys of one kind of object: ADK's own, other names for them, and whether ADK lets unknown ones pass."""

    name: str
    known: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False


def _shape(name: str, known: Iterable[str], /, *, is_open: bool = False, **others: str) -> Shape:
    """`others`: ADK's key = other names for it, separated by blanks."""
    table = {alias: key for key, aliases in others.items() for alias in aliases.split()}
    return Shape(name=name, known=frozenset(known), others=table, is_open=is_open)


CASE = _shape(
    "a case",
    EvalCaseWire.model_fields,
    is_open=True,
    eval_id="id case_id eval_case_id test_id name",
    conversation="turns invocations",
    conversation_scenario="scenario user_scenario",
    session_input="initial_session session_inputs",
)
INVOCATION = _shape(
    "a turn",
    InvocationWire.model_fields,
    user_content="user query prompt user_message user_input input",
    final_response="reference expected_response reference_final_response expected_final_response expected_answer",
    intermediate_data="expected_tool_use expected_tool_calls expected_tools tools tool_uses tool_calls",
)
SESSION = _shape("a session", SessionInputWire.model_fields, is_open=True)
SCENARIO = _shape("a scenario", ScenarioWire.model_fields, user_persona="persona")
RUBRIC = _shape("a rubric", RubricWire.model_fields, rubric_id="id name", rubric_content="content text text_property")
STEPS = _shape(
    "intermediate_data", IntermediateDataWire.model_fields, tool_uses="tool_calls", invocation_events="events"
)
CONTENT = _shape("a content", ContentWire.model_fields, parts="content text")
PART = _shape("a part", PartWire.model_fields, text="content")
CALL = _shape(
    "a tool call", FunctionCallWire.model_fields, name="tool_name", args="arguments tool_input input", id="tool_id"
)
RESPONSE = _shape(
    "a tool response",
    FunctionResponseWire.model_fields,
    name="tool_name",
    response="content result output",
    id="tool_id",
)


class Fields(dict[str, Any]):
    """An object under ADK's keys in snake_case, which remembers how the file spells them."""

    def __init__(self) -> None:
        super().__init__()
        self.spelling: dict[str, str] = {}

    def under(self, path: Path, key: str) -> Path:
        """The path of `key` as the file spells it."""
        return (*path, self.spelling.get(key, key))


def ordered(raw: Mapping[str, Any], shape: Shape, path: Path, ledger: Ledger) -> Fields:
    """`raw` with ADK's keys in snake_case; what ADK would reject is renamed or dropped, and told."""
    made = Fields()
    present = {to_snake(key) for key in raw}
    for key, value in raw.items():
        name = to_snake(key)
        meant = shape.others.get(name)
        if name in shape.known:
            if key not in (name, to_camel(name)):
                ledger.warn("adk-rejects-spelling", f"`{key}` is read as `{name}`. {REJECTED}", path=(*path, key))
            made[name] = value
            made.spelling[name] = key
        elif meant is not None and meant not in present and meant not in made:
            ledger.warn("adk-rejects-name", f"`{key}` is read as {_named(meant)}. {REJECTED}", path=(*path, key))
            made[meant] = value
            made.spelling[meant] = key
        elif not shape.is_open:
            unknown_key(key, shape, path, ledger, absent=shape.known - present)
    return made


def _named(key: str) -> str:
    return "the expected tool calls" if key == "intermediate_data" else f"`{key}`"


def unknown_key(key: str, shape: Shape, path: Path, ledger: Ledger, *, absent: Iterable[str]) -> None:
    """Say that `key` is not ADK's: an error where it is probably one of the `absent` keys, else it is dropped."""
    near = words.nearest(to_snake(key), absent, cutoff=0.8)
    if near:
        ledger.error(
            "unknown-key", f"`{key}` is no key of {shape.name}", path=(*path, key), hint=f"did you mean `{near}`?"
        )
        return
    ledger.warn("adk-rejects-key", f"`{key}` is no key of {shape.name}; it is dropped. {REJECTED}", path=(*path, key))
