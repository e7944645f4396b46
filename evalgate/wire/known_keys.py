"""The keys of every object in an evaluation file, the other names that people give them, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalgate.text import words
from evalgate.wire.cases import EvalCaseWire, ScenarioWire, SessionInputWire
from evalgate.wire.contents import ContentWire, FunctionCallWire, FunctionResponseWire, PartWire
from evalgate.wire.invocations import IntermediateDataWire, InvocationWire, RubricWire
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_camel, to_snake

REJECTED = "ADK itself rejects this"

_EXPECTED = frozenset({"expected", "expect", "expects", "expectation", "expectations", "golden", "gold", "ideal"})
_ANSWER = frozenset({"answer", "answers", "response", "reply", "reference", "output", "completion"})
_TOOLS = frozenset({"tool", "tools", "call", "calls", "function", "functions", "trajectory"})

Lost = Callable[[str, Any, Collection[str]], str]
"""The key that an unknown one (in snake_case, with its value, beside the keys that were read) probably stands for,
where dropping it would drop what is expected; "" where nothing is lost."""


def _nothing(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return ""


def _holds_calls(name: str, value: Any) -> bool:
    """Whether a value is a list of tool calls; of bare names only by what it is called."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, str) for item in value):
        return not _TOOLS.isdisjoint(name.split("_"))
    return any(isinstance(item, dict) and item.keys() & {"name", "tool_name", "toolName", "function"} for item in value)


def _lost_steps(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return "tool_uses" if _holds_calls(name, value) else ""


def lost_expectation(name: str, value: Any, beside: Collection[str]) -> str:
    """Calls where the turn has none, an answer where it has none, and whatever else is called expected."""
    said = name.split("_")
    is_expected = value is not None and not _EXPECTED.isdisjoint(said)
    is_answer = said[-1] in _ANSWER and _TOOLS.isdisjoint(said) and isinstance(value, str | list | dict) and bool(value)
    if "intermediate_data" not in beside and _holds_calls(name, value):
        return "intermediate_data"
    if "final_response" not in beside and (is_answer or is_expected):
        return "final_response"
    return "intermediate_data" if is_expected and "intermediate_data" not in beside else ""


def _lost_arguments(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return "args" if isinstance(value, dict) and value and "args" not in beside else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys of one kind of object: ADK's own, other names for them, and whether ADK lets unknown ones pass."""

    name: str
    known: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False
    lost: Lost = _nothing


def _shape(name: str, known: Iterable[str], /, *, is_open: bool = False, lost: Lost = _nothing, **others: str) -> Shape:
    """`others`: ADK's key = other names for it, separated by blanks."""
    table = {alias: key for key, aliases in others.items() for alias in aliases.split()}
    return Shape(name=name, known=frozenset(known), others=table, is_open=is_open, lost=lost)


_CALLS = "expected_tool_use expected_tool_calls expected_tools tools tool_calls"

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
    lost=lost_expectation,
    user_content="user query prompt user_message user_input input",
    final_response="reference expected_response reference_final_response expected_final_response expected_answer"
    " final_answer expected_final",
    intermediate_data=f"tool_uses {_CALLS}",
)
SESSION = _shape("a session", SessionInputWire.model_fields, is_open=True)
SCENARIO = _shape("a scenario", ScenarioWire.model_fields, user_persona="persona")
RUBRIC = _shape("a rubric", RubricWire.model_fields, rubric_id="id name", rubric_content="content text text_property")
STEPS = _shape(
    "intermediate_data",
    IntermediateDataWire.model_fields,
    lost=_lost_steps,
    tool_uses=_CALLS,
    invocation_events="events",
)
CONTENT = _shape("a content", ContentWire.model_fields, parts="content text")
PART = _shape("a part", PartWire.model_fields, text="content")
CALL = _shape(
    "a tool call",
    FunctionCallWire.model_fields,
    lost=_lost_arguments,
    name="tool_name",
    args="arguments tool_input tool_args input parameters",
    id="tool_id",
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
    unknown = []
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
            unknown.append(key)
    for key in unknown:
        name = to_snake(key)
        near = words.nearest(name, shape.known - present, cutoff=0.8)
        meant = near or ("" if key.startswith("_") else shape.lost(name, raw[key], made.keys()))
        _tell_unknown(key, shape, path, ledger, meant=meant)
    return made


def _named(key: str) -> str:
    return "the expected tool calls" if key == "intermediate_data" else f"`{key}`"


def _tell_unknown(key: str, shape: Shape, path: Path, ledger: Ledger, *, meant: str) -> None:
    """Say that `key` is not ADK's: an error where dropping it would drop what is `meant`, else it is dropped."""
    where = (*path, key)
    if meant:
        ledger.error("unknown-key", f"unknown key `{key}` in {shape.name}", path=where, hint=f"did you mean `{meant}`?")
        return
    ledger.warn("adk-rejects-key", f"unknown key `{key}` in {shape.name} (ignored). {REJECTED}", path=where)
