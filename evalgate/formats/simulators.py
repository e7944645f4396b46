"""ADK's `user_simulator_config` in a test_config.json: who leads the conversation scenarios."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from evalgate.model import SimulatorUse
from evalgate.prompts import templates
from evalgate.text import words
from evalgate.wire import complaints, spelling
from evalgate.wire.complaints import described
from evalgate.wire.generation_config import GenerationConfig
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.shapes import Wire

TYPES = ("llm_backed", "llm_audio")
_DEFAULTS = SimulatorUse()


class SimulatorWire(Wire):
    """ADK's LlmBackedUserSimulatorConfig. ADK keeps unknown keys and reads none; `stop_signal` is ours."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    type: str | None = None
    model: str = _DEFAULTS.model
    model_configuration: GenerationConfig | None = None
    max_allowed_invocations: int = 20
    custom_instructions: str | None = None
    include_function_calls: bool = False
    stop_signal: str = _DEFAULTS.stop_signal


def parse_simulator(raw: Any, *, path: Path, ledger: Ledger) -> SimulatorUse | None:
    """The simulated user as configured; None where it cannot be understood, which the ledger then says."""
    if not isinstance(raw, dict):
        ledger.error("wrong-type", f"expected an object, found {described(raw)}", path=path)
        return None
    before = ledger.failed
    _tell_unknown(raw, path, ledger)
    try:
        wire = SimulatorWire.model_validate(raw)
    except ValidationError as error:
        complaints.complain(error, raw, path=path, ledger=ledger)
        return None
    _check(wire, path, ledger)
    if ledger.failed > before:
        return None
    limit = wire.max_allowed_invocations
    return SimulatorUse(
        model=wire.model,
        config=wire.model_configuration,
        max_turns=None if limit < 0 else limit,
        custom_instructions=wire.custom_instructions,
        include_function_calls=wire.include_function_calls,
        stop_signal=wire.stop_signal,
        place=ledger.place_of(path),
    )


def _tell_unknown(raw: dict[str, Any], path: Path, ledger: Ledger) -> None:
    given = {spelling.field(key) for key in raw}
    for key in raw:
        if spelling.field(key) not in SimulatorWire.model_fields:
            near = words.nearest(key, [name for name in SimulatorWire.model_fields if name not in given])
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(SimulatorWire.model_fields)}"
            ledger.warn("unknown-key", f"unknown key `{key}` in a simulated user", path=(*path, key), hint=hint)


def _check(wire: SimulatorWire, path: Path, ledger: Ledger) -> None:
    if wire.type == "llm_audio":
        message = "audio from a simulated user is not supported; its turns are sent as text only"
        ledger.error("not-supported", message, path=(*path, "type"), hint='use `"type": "llm_backed"`')
    elif wire.type is not None and wire.type not in TYPES:
        near = words.nearest(wire.type, TYPES)
        hint = f"did you mean `{near}`?" if near else f"ADK has {words.listed(TYPES)}"
        message = f"`{wire.type[:60]}` is not a known type of simulated user"
        ledger.error("wrong-value", message, path=(*path, "type"), hint=hint)
    if wire.max_allowed_invocations == 0:
        message = "with 0 turns the agent is never called"
        hint = "ADK's default is 20; -1 means no limit"
        ledger.error("wrong-value", message, path=(*path, "max_allowed_invocations"), hint=hint)
    if not wire.model.strip():
        ledger.error("wrong-value", "the model name is missing", path=(*path, "model"))
    if not wire.stop_signal.strip():
        ledger.error("wrong-value", "an empty stop signal would end every conversation", path=(*path, "stop_signal"))
    problem = "" if wire.custom_instructions is None else templates.problem_of(wire.custom_instructions)
    if problem:
        hint = "ADK requires {{ stop_signal }}, {{ conversation_plan }} and {{ conversation_history }}"
        message = f"the instructions cannot be used: {problem}"
        ledger.error("bad-instructions", message, path=(*path, "custom_instructions"), hint=hint)
