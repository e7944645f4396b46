"""ADK's two old formats, both lists: a flat one of turns (one case), and one of named cases with `data`."""

from __future__ import annotations

from typing import Any

from evalgate.errors import Place
from evalgate.formats.readings import Dialect
from evalgate.model import Case, Invocation, SessionInput
from evalgate.wire import old_turns
from evalgate.wire.complaints import described
from evalgate.wire.known_keys import REJECTED
from evalgate.wire.ledger import Ledger, Path

_NAMED_KEYS = frozenset({"name", "data", "initial_session"})
_HINT = "ADK's old formats are a list of `{query, reference, expected_tool_use}`, or of `{name, data: [...]}`"


class Collector:
    """Turns the items of the list into cases; the first item decides the dialect."""

    def __init__(self, ledger: Ledger, *, case_id: str) -> None:
        self.dialect = Dialect.UNKNOWN
        self._ledger = ledger
        self._case_id = case_id
        self._named: list[Case] = []
        self._turns: list[Invocation] = []
        self._place: Place | None = None

    def add(self, path: Path, raw: Any, offset: int) -> None:
        """Read the item at `path`; what is wrong with it goes to the ledger."""
        place = self._ledger.place_at(offset)
        if path[-1] == 0:
            self._place = place
            self.dialect = dialect_of(raw)
        if self.dialect is Dialect.FLAT_LIST:
            turn = old_turns.read_turn(raw, path=path, ledger=self._ledger)
            if turn is not None:
                self._turns.append(turn)
        elif self.dialect is Dialect.NAMED_LIST:
            case = _named_case(raw, path=path, place=place, ledger=self._ledger)
            if case is not None:
                self._named.append(case)
        elif path[-1] == 0:
            found = ", ".join(f"`{key[:40]}`" for key in raw) if isinstance(raw, dict) else described(raw)
            message = f"this list is not an evaluation set: its first item has {found or 'nothing'}"
            self._ledger.error("not-an-eval-set", message, path=path, hint=_HINT)

    def cases(self) -> tuple[Case, ...]:
        """The cases: all turns of a flat list are one, called after the file."""
        if self.dialect is not Dialect.FLAT_LIST:
            return tuple(self._named)
        return (Case(case_id=self._case_id, conversation=tuple(self._turns), place=self._place),)


def dialect_of(first: Any) -> Dialect:
    """The dialect of a list by its first item."""
    if not isinstance(first, dict):
        return Dialect.UNKNOWN
    if "data" in first:
        return Dialect.NAMED_LIST
    if "query" in first or "expected_tool_use" in first:
        return Dialect.FLAT_LIST
    return Dialect.UNKNOWN


def _named_case(raw: Any, *, path: Path, place: Place, ledger: Ledger) -> Case | None:
    if not isinstance(raw, dict):
        ledger.error("wrong-type", f"expected a case with `name` and `data`, found {described(raw)}", path=path)
        return None
    before = ledger.failed
    name = raw.get("name")
    if not isinstance(name, str):
        found = f"expected text, found {described(name)}" if "name" in raw else "`name` is missing"
        ledger.error("missing-key" if "name" not in raw else "wrong-type", found, path=(*path, "name"))
    data = raw.get("data")
    if not isinstance(data, list):
        found = f"expected a list of turns, found {described(data)}" if "data" in raw else "`data` is missing"
        ledger.error("missing-key" if "data" not in raw else "wrong-type", found, path=(*path, "data"))
        data = []
    turns = [old_turns.read_turn(turn, path=(*path, "data", i), ledger=ledger) for i, turn in enumerate(data)]
    session = _session(raw, path=path, ledger=ledger)
    for key in raw.keys() - _NAMED_KEYS:
        if not key.startswith("_"):
            ledger.note("unused-key", f"unknown key `{key}` in a case (ignored)", path=(*path, key))
    if ledger.failed > before:
        return None
    return Case(case_id=str(name), conversation=tuple(turn for turn in turns if turn), session=session, place=place)


def _session(raw: dict[str, Any], *, path: Path, ledger: Ledger) -> SessionInput | None:
    session, where = raw.get("initial_session", {}), (*path, "initial_session")
    if session is None:
        ledger.warn("adk-rejects-missing", f"`initial_session` is null; read as none. {REJECTED}", path=where)
        return None
    return old_turns.read_session(session, path=where, ledger=ledger)
