"""`evalgate convert` and `evalgate diff`: CES evaluations as ADK evaluation sets and back; two versions by field."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.ces import compare, convert, read, shapes
from evalgate.ces.convert import Loss
from evalgate.ces.cxas import Simulation
from evalgate.ces.read import Kind, Library, Resource
from evalgate.ces.shapes import Evaluation, EvaluationExpectation
from evalgate.discovery import walk
from evalgate.errors import ConfigError, ExitCode, Place, Problem, Severity
from evalgate.formats import eval_set
from evalgate.formats.adk_shapes import case_json
from evalgate.text import decoding, plain, words

APP = click.option(
    "--app",
    default=read.LOCAL_APP,
    metavar="NAME",
    help="The app whose tools, agents and expectations are meant: projects/P/locations/L/apps/A.",
)


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--to", "target", type=click.Choice(["adk", "ces"]), required=True, help="What to write.")
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="adk: a file; ces: a folder.")
@click.option("--strict/--no-strict", default=False, help="Write nothing and exit with 2 if anything is lost.")
@APP
def convert_command(paths: tuple[Path, ...], target: str, output: Path, strict: bool, app: str) -> None:
    """Convert CES evaluations to an ADK evaluation set (`--to adk`) or back (`--to ces`), and report what is lost.

    PATHS are CES files or their folders, or ADK evaluation sets. Expectations that evaluations name are looked for in
    PATHS as well.
    """
    action = _to_adk if target == "adk" else _to_ces
    sys.exit(cli.run_command(lambda: action(paths, output, strict=strict, app=app), debug=False))


@click.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--exit-code/--no-exit-code", default=False, help="Exit with 1 if there are differences.")
def diff_command(old: Path, new: Path, exit_code: bool) -> None:
    """Compare two versions of CES files or folders by field; what relaxes is marked.

    Resources are paired by kind and name, else by display name. Output-only fields are not compared.
    """
    sys.exit(cli.run_command(lambda: _diff(old, new, exit_code=exit_code), debug=False))


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


def _library(paths: Iterable[Path]) -> Library:
    """The CES files of the paths. Raises ConfigError where a file is broken, or none is one of CES."""
    named = tuple(paths)
    texts = {str(path): _text(path) for path in _files(named, read.ENDINGS)}
    is_meant = {str(path) for path in named}
    of_ces = {file: text for file, text in texts.items() if file in is_meant or read.kind_of(text, file=file)}
    found = read.library(of_ces)
    broken = [problem for problem in found.problems if problem.severity is Severity.ERROR]
    cli.show_problems(tuple(problem for problem in found.problems if problem.severity is not Severity.ERROR))
    if broken:
        raise ConfigError.collected(broken)
    if not of_ces:
        raise ConfigError(f"no CES file in {words.listed(map(str, named))}")
    return found


# --- converting -------------------------------------------------------------------------------------


def _to_adk(paths: tuple[Path, ...], output: Path, *, strict: bool, app: str) -> int:
    found = _library(paths)
    expectations = found.of(Kind.EXPECTATION)
    prompts = {each.id: criteria.prompt for each in expectations if (criteria := _criteria(each)) is not None}
    prompts |= read.written_prompts(found.readings.values())
    cases, lost = [], 0
    for resource in found.tests:
        message = resource.message
        if isinstance(message, Evaluation):
            case, losses = convert.to_adk(message, app=_app_of(message, app), prompts=prompts)
        elif isinstance(message, Simulation):
            case, losses = convert.simulation_to_adk(message, app=app)
        else:
            _tell(resource, [Loss(path=(), why="ADK has no tests of a tool alone")])
            lost += 1
            continue
        cases.append(case)
        lost += _tell(resource, losses)
    made = {"eval_set_id": eval_set.stem(output.name), "eval_cases": [case_json(case) for case in cases]}
    if strict and lost:
        raise ConfigError(f"{words.counted(lost, 'loss', 'losses')}: nothing was written (`--strict`)")
    if not cases:
        raise ConfigError("nothing that ADK has a form for was found: no file was written")
    _write(output, made)
    return _done(f"{words.counted(len(cases), 'case')} in {output}", lost)


def _criteria(resource: Resource) -> Any:
    message = resource.message
    return message.llm_criteria if isinstance(message, EvaluationExpectation) else None


def _app_of(evaluation: Evaluation, given: str) -> str:
    """The app of an evaluation by its name; the one that is given for one without."""
    head, mark, _ = evaluation.name.partition("/evaluations/")
    return head if mark and given == read.LOCAL_APP else given


def _to_ces(paths: tuple[Path, ...], output: Path, *, strict: bool, app: str) -> int:
    made: dict[Path, dict[str, Any]] = {}
    lost = count = 0
    for path in _files(paths, walk.EVALUATION_ENDINGS):
        reading = eval_set.parse_eval_set(_text(path), file=str(path))
        cli.show_problems(reading.problems)
        if reading.eval_set is None:
            raise ConfigError.collected(reading.problems)
        for case in reading.eval_set.cases:
            evaluation, expectations, losses = convert.to_ces(case, app=app)
            named = read.file_name(case.case_id)
            place = output / "evaluations" / named / f"{named}.json"
            if place in made:
                raise ConfigError(f"two cases would be written to {place}", hint="Give each case an id of its own.")
            made[place] = evaluation.json()
            for each in expectations:
                name = read.file_name(each.display_name)
                made[output / "evaluationExpectations" / name / f"{name}.json"] = each.json()
            lost += _tell_losses(f"{path}: {case.case_id}", losses)
            count += 1
    if strict and lost:
        raise ConfigError(f"{words.counted(lost, 'loss', 'losses')}: nothing was written (`--strict`)")
    if not count:
        raise ConfigError(f"no case in {words.listed(map(str, paths))}: no file was written")
    for place, content in made.items():
        _write(place, content)
    return _done(f"{words.counted(count, 'evaluation')} in {output}", lost)


def _tell(resource: Resource, losses: list[Loss]) -> int:
    return _tell_losses(f"{resource.place.file}: {resource.title}", losses)


def _tell_losses(where: str, losses: list[Loss]) -> int:
    """Report what is lost; how much that is, remarks not counted."""
    for each in losses:
        click.echo(plain.visible(f"{where}: {each}"), err=True)
    return sum(each.effect is not convert.Effect.NOTE for each in losses)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _done(what: str, lost: int) -> int:
    click.echo(f"{what}, {words.counted(lost, 'loss', 'losses') if lost else 'nothing lost'}")
    return ExitCode.PASS


# --- comparing --------------------------------------------------------------------------------------


def _diff(old: Path, new: Path, *, exit_code: bool) -> int:
    before, after = (_library([path]).of(*Kind) for path in (old, new))
    differences = relaxed = 0
    for left, right in _pairs(before, after):
        if left is None or right is None:
            one, said = (left, "removed (relaxes)") if right is None else (right, "added")
            differences += 1
            relaxed += right is None
            click.echo(plain.visible(f"{one.kind} {one.title}: {said}" if one else said))
            continue
        named = f"{right.kind} {right.title}"
        found = list(compare.changes(shapes.comparable(left.message), shapes.comparable(right.message)))
        relaxing = {each.path: each.why for each in compare.relaxations(found)}
        for each in found:
            why = f" (relaxes: {relaxing[each.path]})" if each.path in relaxing else ""
            click.echo(plain.visible(f"{named}: {each}{why}"))
        differences += len(found)
        relaxed += len(relaxing)
    click.echo(f"{words.counted(differences, 'difference')}, {relaxed} of them relaxing")
    return ExitCode.FAIL if exit_code and differences else ExitCode.PASS


def _pairs(before: Iterable[Resource], after: Iterable[Resource]) -> Iterator[tuple[Resource | None, Resource | None]]:
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
