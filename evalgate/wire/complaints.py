"""What pydantic found wrong, in words: where, what was expected, what stands there, what was probably meant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from evalgate.text import words
from evalgate.wire import generation_config
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_snake

_EXPECTED = {
    "string_type": "text",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list of two: author and parts",
    "too_short": "a list of two: author and parts",
    "too_long": "a list of two: author and parts",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_OWN = frozenset({"no_conversation", "two_conversations", "two_records", "unknown_persona"})


def complain(error: ValidationError, raw: Any, *, path: Path, ledger: Ledger) -> None:
    """Put every finding of `error` about `raw`, which stands at `path`, into the ledger."""
    told: set[Path] = set()
    for finding in error.errors(include_url=False):
        where = _user_path(finding["loc"], raw)
        if where in told and finding["type"] not in ("missing", "extra_forbidden"):
            continue  # the branches of a union say the same thing twice
        told.add(where)
        _complain(finding, raw, where=where, path=path, ledger=ledger)


def _complain(finding: Mapping[str, Any], raw: Any, *, where: Path, path: Path, ledger: Ledger) -> None:
    kind = str(finding["type"])
    full = (*path, *where)
    if kind == "missing":
        key = to_snake(str(where[-1])) if where else ""
        hint = _probably(key, _at(raw, where[:-1]))
        ledger.error("missing-key", f"`{key}` is missing", path=full, hint=hint)
    elif kind == "extra_forbidden":
        ledger.error("unknown-key", f"`{where[-1] if where else ''}` is not known here", path=full)
    elif kind in _EXPECTED:
        found = described(finding.get("input"))
        ledger.error("wrong-type", f"expected {_EXPECTED[kind]}, found {found}", path=full)
    elif kind == generation_config.REFUSED:
        inner, near = finding["ctx"]["at"], finding["ctx"]["near"]
        hint = f"did you mean `{near}`?" if near else ""
        ledger.error("bad-option", str(finding["msg"]), path=(*full, *inner), hint=hint)
    elif kind in _OWN:
        near = (finding.get("ctx") or {}).get("near")
        hint = f"did you mean `{near}`?" if near else ""
        ledger.error(kind.replace("_", "-"), str(finding["msg"]), path=full, hint=hint)
    else:
        message = str(finding["msg"])
        ledger.error("wrong-value", f"{message[:1].lower()}{message[1:]}", path=full)


def described(value: Any) -> str:
    """A short name for a JSON value: `the number 3`, `an object`, `null`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    kind = "an object" if isinstance(value, dict) else "a list"
    return kind if value else f"{kind} without content"


def _user_path(loc: Sequence[str | int], raw: Any) -> Path:
    """`loc` without the names of union branches, in snake_case."""
    path: list[str | int] = []
    here = raw
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(part, int):
            path.append(part)
            here = here[part] if isinstance(here, list | tuple) and part < len(here) else None
        elif isinstance(here, dict):
            name = part if part in here else to_snake(part)
            path.append(name)
            here = here.get(name)
        elif not last:
            continue  # a branch of a union: not a key of the file
    return tuple(path)


def _at(raw: Any, path: Path) -> Any:
    for part in path:
        if (isinstance(raw, dict) and part in raw) or (isinstance(raw, list) and isinstance(part, int)):
            raw = raw[part]  # type: ignore[index]  # the keys were checked above
        else:
            return None
    return raw


def _probably(key: str, siblings: Any) -> str:
    if not isinstance(siblings, dict):
        return ""
    near = words.nearest(key, [str(name) for name in siblings], cutoff=0.8)
    return f"`{near}` is there instead" if near else f"found there: {_names(siblings)}"


def _names(siblings: Mapping[str, Any]) -> str:
    return words.listed([f"`{str(name)[:40]}`" for name in siblings]) or "nothing"
