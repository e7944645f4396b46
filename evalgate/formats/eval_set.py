"""Evaluation files of all dialects: ADK's evaluation sets, and cases that rows of FORMATS read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from posixpath import basename
from typing import Any

from evalgate.errors import Place
from evalgate.model import Case, EvalSet
from evalgate.model.shapes import to_snake
from evalgate.text import words
from evalgate.values import JsonObject
from . import json_source, repair
from .base import FORMATS
from .json_source import Path, Problems, Spot, described
from .kind import CASE_IDS, Dialect, EvalSetReading, describe_keys, is_dataset_case

_KNOWN = frozenset({"eval_set_id", "name", "description", "eval_cases", "creation_timestamp"})
_SUFFIXES = (".evalset.json", ".test.json", "-dataset.json", ".json")


def parse_eval_set(text: str, *, file: str) -> EvalSetReading:
    """Read an evaluation file. `file`: its repository-relative name, for messages and missing
    ids."""
    spot = Spot(Problems(text, file=file))
    cases = _Cases(spot.problems)
    eval_set = None
    value = json_source.read(
        text, spot.problems, consumer=cases.add, streamed=frozenset({"eval_cases"})
    )
    if isinstance(value, dict):
        eval_set = _of_object(value, cases, spot)
    elif isinstance(value, list):
        eval_set = _of_list(cases, spot)
    elif not spot.is_broken:
        message = f"expected an evaluation set (an object), found {described(value)}"
        spot.error("not-an-eval-set", message)
    return EvalSetReading(
        eval_set=None if spot.is_broken else eval_set,
        problems=spot.problems.all(),
        dialect=cases.dialect,
    )


class _Cases:
    """Collects the cases of a file while its elements are read: those of `eval_cases`, or of a list
    at the top."""

    def __init__(self, problems: Problems) -> None:
        self.dialect = Dialect.UNKNOWN
        self.cases: list[Case] = []
        self.place: Place | None = None
        self._problems = problems
        self._by_id: dict[str, Case] = {}
        self._copies: Counter[str] = Counter()

    def add(self, path: Path, raw: Any, offset: int) -> None:
        """Read the element at `path`; the first one decides the dialect. Every error in it is a
        problem."""
        place = self._problems.place_at(offset)
        dialect = Dialect.AGENTS_CLI if is_dataset_case(raw) else Dialect.ADK
        if len(path) == 1:  # a list at the top
            dialect = self.dialect if path[-1] else _dialect_of_list(raw)
        if not path[-1]:  # a duplicate key starts over: the last one counts
            self.cases.clear()
            self._by_id.clear()
            self._copies.clear()
            self.place = place
            self.dialect = dialect
        spot = Spot(self._problems, path)
        if dialect is Dialect.UNKNOWN:
            if not path[-1]:
                message = (
                    f"this list is not {_sought(self._problems.file)}: {_describe_actual(raw)}"
                )
                spot.error("not-an-eval-set", message, _OLD_FORMATS)
            return
        # the usual files need no other reader, which would have to be loaded
        row = None if dialect is Dialect.ADK else FORMATS.get(dialect)
        read_case = repair.read_case if row is None else row.read_case
        case = read_case(raw, spot, place=place)
        if case is not None:
            is_turn = dialect is Dialect.FLAT_LIST
            if not is_turn and case.case_id in self._by_id:
                case = self._with_new_id(case, spot)
            self.cases.append(case)
            self._by_id[case.case_id] = case

    def _with_new_id(self, case: Case, spot: Spot) -> Case:
        """The case, with a number after its id because another case has the same id. ADK runs both,
        but results are stored by id."""
        new_id = case.case_id
        while new_id in self._by_id:
            self._copies[case.case_id] += 1
            new_id = f"{case.case_id} ({self._copies[case.case_id] + 1})"
        first_place = self._by_id[case.case_id].place
        location = f" (the first is at {first_place})" if first_place else ""
        message = f"the case id {case.case_id!r} is already used{location}; this case is called {new_id!r}"
        spot.warning("duplicate-case-id", message, "Give each case in a file a unique id.")
        return replace(case, case_id=new_id)


def _of_object(members: JsonObject, cases: _Cases, spot: Spot) -> EvalSet | None:
    cases_key = next((key for key in members if to_snake(key) == "eval_cases"), None)
    if cases_key is None:
        key_guess = words.nearest(
            "eval_cases", [key for key, value in members.items() if isinstance(value, list)]
        )
        hint = f"`{key_guess}` looks similar, but its items are not ADK cases" if key_guess else ""
        first_cases = members[key_guess][:1] if key_guess else ()
        if any(isinstance(raw, dict) and {"eval_id", "evalId"} & raw.keys() for raw in first_cases):
            hint = f"Write `eval_cases` in place of `{key_guess}`."
        message = f"this is not {_sought(spot.problems.file)}: there is no `eval_cases`; {_describe_actual(members)}"
        spot.error("not-an-eval-set", message, hint)
        return None
    if cases.dialect is Dialect.UNKNOWN:
        cases.dialect = Dialect.ADK
    fields = _fields(members, cases.dialect, spot)
    if not isinstance(fields["eval_cases"], list):
        spot.at(cases_key).wrong_type("a list of cases", fields["eval_cases"])
    eval_set_id = fields.get("eval_set_id")
    if not (isinstance(eval_set_id, str) and eval_set_id):
        eval_set_id = _missing_id(eval_set_id, cases.dialect, spot)
    return EvalSet(
        eval_set_id=eval_set_id,
        cases=tuple(cases.cases),
        name=_text_or_none(fields, "name", spot),
        description=_text_or_none(fields, "description", spot),
    )


def _sought(file: str) -> str:
    return "a dataset of agents-cli" if file.endswith("-dataset.json") else "an evaluation set"


def _describe_actual(raw: Any) -> str:
    """The value that was found: its kind if known, else its keys."""
    if not isinstance(raw, dict):
        return f"found {described(raw)}"
    kind = describe_keys(raw)
    return (
        f"found {kind}"
        if kind and "evaluation set" not in kind
        else f"found {json_source.listed_keys(raw)}"
    )


def _stem(file: str) -> str:
    """The default id of an evaluation set: `roll_die` for `tests/roll_die.test.json`."""
    name = basename(file)
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or name
    return name or "eval_set"


def _fields(members: JsonObject, dialect: Dialect, spot: Spot) -> JsonObject:
    """The members by ADK's names, with a problem for each unknown one (which ADK drops
    silently)."""
    known_names = _KNOWN | {"candidate_name"} if dialect is Dialect.AGENTS_CLI else _KNOWN
    fields: JsonObject = {}
    for key, value in members.items():
        name = to_snake(key)
        if name in known_names:
            if (
                key != name
                and name in ("eval_set_id", "eval_cases")
                and dialect is not Dialect.AGENTS_CLI
            ):
                message = (
                    f"`{key}` is read as `{name}`. ADK itself rejects camelCase at the top level"
                )
                spot.at(key).warning("adk-rejects-spelling", message)
            fields[name] = value
        elif not key.startswith(("_", "$")):
            guess = words.nearest(
                name, known_names - {to_snake(member_key) for member_key in members}, cutoff=0.8
            )
            spot.at(key).unknown_key("an evaluation set", near=guess)
    return fields


def _missing_id(eval_set_id: Any, dialect: Dialect, spot: Spot) -> str:
    """The id in place of one that is not a text."""
    default_id = _stem(spot.problems.file)
    if dialect is Dialect.AGENTS_CLI:
        return default_id
    if eval_set_id in (None, ""):
        message = f"there is no `eval_set_id`; using {default_id} from the file name"
        spot.adk_warning("missing-eval-set-id", message)
    elif isinstance(eval_set_id, int | float):
        message = "the id is a number; ADK itself rejects it"
        spot.at("eval_set_id").warning("adk-rejects-type", message)
        return str(eval_set_id)
    else:
        spot.at("eval_set_id").wrong_type("text", eval_set_id)
    return default_id


def _text_or_none(fields: JsonObject, key: str, spot: Spot) -> str | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    message = f"expected text, found {described(value)}; it is dropped"
    spot.at(key).warning("adk-rejects-type", message)
    return None


def _of_list(cases: _Cases, spot: Spot) -> EvalSet:
    set_id = _stem(spot.problems.file)
    if cases.dialect is Dialect.UNKNOWN and not spot.is_broken:
        message = "this list is empty; an evaluation set is an object with `eval_cases`"
        spot.error("not-an-eval-set", message)
    listed_cases = tuple(cases.cases)
    if cases.dialect is Dialect.AGENTS_CLI:
        message = "a list of cases; read as `eval_cases`. agents-cli and ADK reject this"
        spot.warning("adk-rejects-shape", message)
    if cases.dialect is Dialect.FLAT_LIST:
        turns = tuple(turn for case in listed_cases for turn in case.turns)
        listed_cases = (Case(case_id=set_id, conversation=turns, place=cases.place),)
    return EvalSet(eval_set_id=set_id, cases=listed_cases, name=set_id)


_OLD_FORMATS = "ADK's old formats are a list of `{query, reference, expected_tool_use}`, or of `{name, data: [...]}`"


def _dialect_of_list(first_item: Any) -> Dialect:
    """The dialect of a list, by its first element. A list of cases is a dataset, because ADK has no
    such form."""
    if not isinstance(first_item, dict):
        return Dialect.UNKNOWN
    if not CASE_IDS.isdisjoint(map(to_snake, first_item)):
        return Dialect.AGENTS_CLI
    if "data" in first_item:
        return Dialect.NAMED_LIST
    if "query" in first_item or "expected_tool_use" in first_item:
        return Dialect.FLAT_LIST
    return Dialect.UNKNOWN
