"""ADK's two old formats of evaluation files, written in its current one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pydantic import ValidationError

from evalgate.errors import ConfigError, Place
from evalgate.formats import adk_shapes, eval_set
from evalgate.formats.kind import Dialect
from evalgate.model import EvalSet, SessionInput

OLD = (Dialect.FLAT_LIST, Dialect.NAMED_LIST)


def migrated(text: str, *, file: str, session: Any = None) -> str:
    """The file in ADK's current format; it reads the same. `session`: ADK's `initial_session` for cases without one.

    Raises ConfigError where the file cannot be read, or is in the current format already.
    """
    reading = eval_set.parse_eval_set(text, file=file)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    if reading.dialect not in OLD:
        hint = "Old ones are a list of `{query, reference, expected_tool_use}`, or of `{name, data: [...]}`."
        raise ConfigError("is not in one of ADK's old formats", where=Place(file=file), hint=hint)
    found = reading.eval_set
    if session is not None:
        given = _session(session, file=file)
        cases = tuple(
            dataclasses.replace(case, session=given) if case.session is None else case for case in found.cases
        )
        found = dataclasses.replace(found, cases=cases)
    whole = {
        "eval_set_id": found.eval_set_id,
        "name": found.name or found.eval_set_id,
        "eval_cases": [adk_shapes.case_json(case) for case in found.cases],
    }
    made = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    again = eval_set.parse_eval_set(made, file=file).eval_set
    if again is None or _bare(again) != _bare(found):
        raise ConfigError("has something that the current format cannot say", where=Place(file=file))
    return made


def _session(raw: Any, *, file: str) -> SessionInput:
    try:
        return adk_shapes.SessionInputWire.model_validate(raw).noun()
    except ValidationError as error:
        raise ConfigError(
            f"the initial session is not ADK's: {error.errors()[0]['msg']}", where=Place(file=file)
        ) from error


def _bare(found: EvalSet) -> list[Any]:
    return [dataclasses.replace(case, place=None) for case in found.cases]
