"""One case of an evaluation file: as ADK reads it, else as it is evidently meant, else told what is wrong with it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from evalgate.errors import Place
from evalgate.model import Case, Content
from evalgate.text import words
from evalgate.wire import complaints, mending
from evalgate.wire.cases import EvalCaseWire
from evalgate.wire.contents import ContentWire
from evalgate.wire.invocations import STRICT
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_camel, to_snake

STREAMED = frozenset({"eval_cases"})
_KNOWN = frozenset(EvalCaseWire.model_fields) | {to_camel(name) for name in EvalCaseWire.model_fields}


def read_case(raw: Any, *, path: Path, place: Place, ledger: Ledger) -> Case | None:
    """The case at `path`; None where it cannot be understood, and the ledger says why."""
    try:
        case = EvalCaseWire.model_validate(raw, context=STRICT)
    except ValidationError:
        return _read_mended(raw, path=path, place=place, ledger=ledger)
    unused = raw.keys() - _KNOWN
    if unused:
        _tell_unused(unused, raw, path, ledger)
    return case.noun(place=place)


def read_content(raw: Any, *, role: str, path: Path, ledger: Ledger) -> Content | None:
    """A content in any spelling; None where it cannot be understood, and the ledger says why."""
    mended = mending.mend_content(raw, path, ledger, role=role)
    try:
        return ContentWire.model_validate(mended).noun()
    except ValidationError as error:
        complaints.complain(error, mended, path=path, ledger=ledger)
        return None


def _read_mended(raw: Any, *, path: Path, place: Place, ledger: Ledger) -> Case | None:
    mended = mending.mend_case(raw, path, ledger)
    if isinstance(mended, dict) and mended.get("eval_id") is None:
        made = f"case_{path[-1] if path else 0}"
        ledger.warn("missing-eval-id", f"the case has no `eval_id`; using {made}. ADK itself rejects this", path=path)
        mended["eval_id"] = made
    try:
        return EvalCaseWire.model_validate(mended).noun(place=place)
    except ValidationError as error:
        complaints.complain(error, mended, path=path, ledger=ledger)
        return None


def _tell_unused(unused: set[str], raw: dict[str, Any], path: Path, ledger: Ledger) -> None:
    absent = EvalCaseWire.model_fields.keys() - {to_snake(key) for key in raw}
    for key in sorted(unused):
        near = words.nearest(to_snake(key), absent, cutoff=0.8)
        if near:
            hint = f"did you mean `{near}`?"
            ledger.warn("unused-key", f"unknown key `{key}` in a case (ignored)", path=(*path, key), hint=hint)
        elif not key.startswith("_"):
            ledger.note("unused-key", f"unknown key `{key}` in a case (ignored)", path=(*path, key))
