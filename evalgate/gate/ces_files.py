"""CES files at the terminal's request: converted to ADK evaluation sets and back; two versions compared by field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalgate.ces import compare, convert, read, shapes
from evalgate.ces.compare import Change, Relaxation
from evalgate.ces.convert import Loss
from evalgate.ces.cxas import Simulation
from evalgate.ces.read import Kind, Library, Resource
from evalgate.ces.shapes import Evaluation, EvaluationExpectation
from evalgate.discovery import walk
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.formats import eval_set
from evalgate.formats.adk_shapes import case_json
from evalgate.text import decoding, words


@dataclass(slots=True)
class Converted:
    """The files that a conversion gives, how many evaluations or cases are in them, and what is lost: `told` in words,
    of which `lost` are more than remarks. `problems`: warnings of the files that were read."""

    files: dict[Path, dict[str, Any]] = field(default_factory=dict)
    count: int = 0
    told: list[str] = field(default_factory=list)
    lost: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add_losses(self, where: str, losses: Iterable[Loss]) -> None:
        """Note what is lost of one evaluation."""
        for each in losses:
            self.told.append(f"{where}: {each}")
            self.lost += each.effect is not convert.Effect.NOTE

    def write(self) -> None:
        """Write the files."""
        for path, content in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs in one resource: it is on one side alone, or its fields changed, and which of that relaxes."""

    kind: Kind
    title: str
    only_in: str = ""  # old, new
    changes: tuple[Change, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()


# --- reading ----------------------------------------------------------------------------------------


def _files(paths: Iterable[Path], endings: tuple[str, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.rglob("*") if each.name.endswith(endings) and each.is_file())
        elif path.exists():
            yield path
        else:
            raise ConfigError("the file does not exist", where=Place(file=str(path)))


def _text(path: Path) -> str:
    data = walk.read_named(path, shown=str(path))
    text = data if isinstance(data, Problem) else decoding.decode(data, file=str(path))
    if isinstance(text, Problem):
        raise ConfigError.collected([text])
    return text


def library(paths: Iterable[Path]) -> Library:
    """The CES files of the paths. Raises ConfigError where a file is broken, or none is one of CES."""
    named = tuple(paths)
    texts = {str(path): _text(path) for path in _files(named, read.ENDINGS)}
    is_meant = {str(path) for path in named}
    of_ces = {file: text for file, text in texts.items() if file in is_meant or read.kind_of(text, file=file)}
    found = read.library(of_ces)
    if any(problem.severity is Severity.ERROR for problem in found.problems):
        raise ConfigError.collected(found.problems)
    if not of_ces:
        raise ConfigError(f"no CES file in {words.listed(map(str, named))}")
    return found


# --- converting -------------------------------------------------------------------------------------


def to_adk(paths: Iterable[Path], output: Path, *, app: str) -> Converted:
    """CES evaluations as one ADK evaluation set; expectations that they name are looked for in the paths as well."""
    found = library(paths)
    made = Converted(problems=list(found.problems))
    expectations = found.of(Kind.EXPECTATION)
    prompts = {each.id: criteria.prompt for each in expectations if (criteria := _criteria(each)) is not None}
    prompts |= read.written_prompts(found.readings.values())
    cases = []
    for resource in found.tests:
        message = resource.message
        if isinstance(message, Evaluation):
            case, losses = convert.to_adk(message, app=_app_of(message, app), prompts=prompts)
            cases.append(case)
        elif isinstance(message, Simulation):
            case, losses = convert.simulation_to_adk(message, app=app)
            cases.append(case)
        else:
            losses = [Loss(path=(), why="ADK has no tests of a tool alone")]
        made.add_losses(f"{resource.place.file}: {resource.title}", losses)
    if cases:
        made.files[output] = {
            "eval_set_id": eval_set.stem(output.name),
            "eval_cases": [case_json(case) for case in cases],
        }
    made.count = len(cases)
    return made


def _criteria(resource: Resource) -> Any:
    message = resource.message
    return message.llm_criteria if isinstance(message, EvaluationExpectation) else None


def _app_of(evaluation: Evaluation, given: str) -> str:
    """The app of an evaluation by its name; the one that is given for one without."""
    head, mark, _ = evaluation.name.partition("/evaluations/")
    return head if mark and given == read.LOCAL_APP else given


def to_ces(paths: Iterable[Path], output: Path, *, app: str) -> Converted:
    """ADK evaluation sets as CES evaluations in an export's layout."""
    made = Converted()
    for path in _files(paths, walk.EVALUATION_ENDINGS):
        reading = eval_set.parse_eval_set(_text(path), file=str(path))
        if reading.eval_set is None:
            raise ConfigError.collected(reading.problems)
        made.problems += reading.problems
        for case in reading.eval_set.cases:
            evaluation, expectations, losses = convert.to_ces(case, app=app)
            named = read.file_name(case.case_id)
            place = output / "evaluations" / named / f"{named}.json"
            if place in made.files:
                raise ConfigError(f"two cases would be written to {place}", hint="Give each case an id of its own.")
            made.files[place] = evaluation.json()
            for each in expectations:
                name = read.file_name(each.display_name)
                made.files[output / "evaluationExpectations" / name / f"{name}.json"] = each.json()
            made.add_losses(f"{path}: {case.case_id}", losses)
            made.count += 1
    return made


# --- comparing --------------------------------------------------------------------------------------


def differences(old: Path, new: Path) -> tuple[list[Difference], tuple[Problem, ...]]:
    """What differs between two versions of files, and the warnings of both."""
    libraries = [library([path]) for path in (old, new)]
    found = []
    for left, right in pairs(*map(_compared, libraries)):
        one = right or left
        assert one is not None
        if left is None or right is None:
            relaxed = (compare.removed(str(one.kind)),) if right is None else ()
            only = "old" if right is None else "new"
            found.append(Difference(kind=one.kind, title=one.title, only_in=only, relaxations=relaxed))
            continue
        changes = tuple(compare.changes(shapes.comparable(left.message), shapes.comparable(right.message)))
        if changes:
            relaxing = tuple(compare.relaxations(changes))
            found.append(Difference(kind=one.kind, title=one.title, changes=changes, relaxations=relaxing))
    return found, tuple(problem for each in libraries for problem in each.problems)


def _compared(found: Library) -> list[Resource]:
    """The resources of files, and what apps say as one each, with their personas."""
    apps = [
        Resource(kind=Kind.APP, file=file, path=(), message=reading.app, place=Place(file=file))
        for file, reading in found.readings.items()
        if reading.app is not None
    ]
    return [*apps, *(each for each in found.of(*Kind) if each.kind is not Kind.PERSONA or not each.path)]


def pairs(before: Iterable[Resource], after: Iterable[Resource]) -> Iterator[tuple[Resource | None, Resource | None]]:
    """The versions of each resource: those of one name, else those that are called the same."""
    left = list(before)
    for new in after:
        name = getattr(new.message, "name", "")
        of_kind = [old for old in left if old.kind is new.kind]
        by_name = next((old for old in of_kind if name and getattr(old.message, "name", "") == name), None)
        old = by_name or next((old for old in of_kind if old.title == new.title), None)
        if old is not None:
            left.remove(old)
        yield old, new
    for old in left:
        yield old, None
