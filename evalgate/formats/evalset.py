"""An evaluation file of any dialect: the shape decides which, then that dialect's problems are reported."""

from __future__ import annotations

from posixpath import basename
from typing import Any

from pydantic.alias_generators import to_snake

from evalgate.errors import Place
from evalgate.formats import agents_cli, json_source, legacy, repair
from evalgate.formats.json_source import Path, Problems, described
from evalgate.formats.kinds import Dialect, EvalSetReading
from evalgate.model import Case, EvalSet
from evalgate.text import words

# -- ADK's evaluation sets, and agents-cli datasets, which look like them from outside --

_KNOWN = frozenset({"eval_set_id", "name", "description", "eval_cases", "creation_timestamp"})
_DATASET_KNOWN = _KNOWN | {"candidate_name"}
_SUFFIXES = (".evalset.json", ".test.json", "-dataset.json", ".json")


class Collector:
    """Turns the items of `eval_cases` into cases as they are read."""

    def __init__(self, problems: Problems) -> None:
        self.cases: list[Case] = []
        self.is_dataset = False
        self._problems = problems

    def add(self, path: Path, raw: Any, offset: int) -> None:
        """Read the case at `path`; what is wrong with it is a problem."""
        if path[-1] == 0:  # a key that stands twice begins anew: the last one counts
            self.cases.clear()
            self.is_dataset = agents_cli.is_dataset_case(raw)
        place = self._problems.place_at(offset)
        case = self._read(raw, path, place)
        if case is not None:
            self.cases.append(case)

    def _read(self, raw: Any, path: Path, place: Place) -> Case | None:
        if agents_cli.is_dataset_case(raw):
            return agents_cli.read_case(raw, path=path, place=place, problems=self._problems)
        return repair.read_case(raw, path=path, place=place, problems=self._problems)


def conclude(members: dict[str, Any], collected: Collector, problems: Problems) -> EvalSetReading:
    """The evaluation set, when the whole object has been read."""
    if not any(to_snake(key) == "eval_cases" for key in members):
        _tell_missing_cases(members, problems)
        return EvalSetReading(eval_set=None, problems=problems.all())
    dialect = _dialect(members, is_dataset=collected.is_dataset)
    fields = _fields(members, dialect, problems)
    if not isinstance(fields["eval_cases"], list):
        found = described(fields["eval_cases"])
        problems.error(
            "wrong-type", f"expected a list of cases, found {found}", path=(_spelling("eval_cases", members),)
        )
    eval_set_id = _eval_set_id(fields, dialect, problems)
    name = _optional_text(fields, "name", problems)
    description = _optional_text(fields, "description", problems)
    eval_set = None
    if not problems.failed:
        eval_set = EvalSet(eval_set_id=eval_set_id, cases=tuple(collected.cases), name=name, description=description)
    return EvalSetReading(eval_set=eval_set, problems=problems.all(), dialect=dialect)


def stem(file: str) -> str:
    """The name that an evaluation set has by its file: `roll_die` for `tests/roll_die.test.json`."""
    name = basename(file.replace("\\", "/"))
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or name
    return name or "eval_set"


def _dialect(members: dict[str, Any], *, is_dataset: bool) -> Dialect:
    if is_dataset:
        return Dialect.AGENTS_CLI
    if any(key in members for key in ("evalSetId", "evalCases")):
        return Dialect.ADK_CAMEL
    return Dialect.ADK


def _fields(members: dict[str, Any], dialect: Dialect, problems: Problems) -> dict[str, Any]:
    """The members under ADK's names; ADK drops unknown ones in silence."""
    known = _DATASET_KNOWN if dialect is Dialect.AGENTS_CLI else _KNOWN
    fields: dict[str, Any] = {}
    for key, value in members.items():
        name = to_snake(key)
        if name in known:
            if key != name and name in ("eval_set_id", "eval_cases") and dialect is not Dialect.AGENTS_CLI:
                message = f"`{key}` is read as `{name}`. ADK itself rejects camelCase at the top level"
                problems.warning("adk-rejects-spelling", message, path=(key,))
            fields[name] = value
        elif not key.startswith(("_", "$")):
            near = words.nearest(name, known - {to_snake(other) for other in members}, cutoff=0.8)
            hint = f"did you mean `{near}`?" if near else ""
            message = f"unknown key `{key}` in an evaluation set (ignored)"
            tell = problems.warning if near else problems.note
            tell("unused-key", message, path=(key,), hint=hint)
    return fields


def _tell_missing_cases(members: dict[str, Any], problems: Problems) -> None:
    listed = [key for key, value in members.items() if isinstance(value, list)]
    near = words.nearest("eval_cases", listed)
    found = words.listed([f"`{key[:40]}`" for key in members]) or "nothing"
    hint = f"`{near}` looks similar, but its items are not ADK cases" if near else ""
    problems.error("not-an-eval-set", f"there is no `eval_cases`; the file has {found}", hint=hint)


def _eval_set_id(fields: dict[str, Any], dialect: Dialect, problems: Problems) -> str:
    given = fields.get("eval_set_id")
    if isinstance(given, str) and given:
        return given
    made = stem(problems.file)
    if dialect is Dialect.AGENTS_CLI:
        return made
    if given is None or given == "":
        message = f"there is no `eval_set_id`; using {made} from the file name. ADK itself rejects this"
        problems.warning("missing-eval-set-id", message)
    elif isinstance(given, int | float):
        problems.warning("adk-rejects-type", "the id is a number; ADK itself rejects it", path=("eval_set_id",))
        return str(given)
    else:
        problems.error("wrong-type", f"expected text, found {described(given)}", path=("eval_set_id",))
    return made


def _optional_text(fields: dict[str, Any], key: str, problems: Problems) -> str | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    problems.warning("adk-rejects-type", f"expected text, found {described(value)}; it is dropped", path=(key,))
    return None


def _spelling(name: str, members: dict[str, Any]) -> str:
    return next((key for key in members if to_snake(key) == name), name)


def parse_eval_set(text: str, *, file: str) -> EvalSetReading:
    """Read an evaluation file; `file` is its repository-relative name, for messages and missing ids."""
    problems = Problems(text, file=file)
    objects = Collector(problems)
    lists = legacy.Collector(problems, case_id=stem(file))

    def each(path: Path, raw: Any, offset: int) -> None:
        (objects if len(path) > 1 else lists).add(path, raw, offset)

    document = json_source.read(text, problems, each=each, streamed=repair.STREAMED)
    if document is None:
        return EvalSetReading(eval_set=None, problems=problems.all())
    if document.kind == "object":
        return conclude(document.members, objects, problems)
    if document.kind == "list":
        return _conclude_list(lists, problems)
    problems.error("not-an-eval-set", json_source.expected("an evaluation set (an object)", document))
    return EvalSetReading(eval_set=None, problems=problems.all())


def _conclude_list(lists: legacy.Collector, problems: Problems) -> EvalSetReading:
    name = stem(problems.file)
    if lists.dialect is Dialect.UNKNOWN and not problems.failed:
        problems.error("not-an-eval-set", "this list is empty; an evaluation set is an object with `eval_cases`")
    eval_set = None if problems.failed else EvalSet(eval_set_id=name, cases=lists.cases(), name=name)
    return EvalSetReading(eval_set=eval_set, problems=problems.all(), dialect=lists.dialect)
