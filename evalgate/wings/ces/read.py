"""Read a CES file, in JSON or YAML: its kind, its resources, and its problems with their places.

This is stricter than google-cloud-ces: it also checks required fields, ranges, conflicts within a
turn and keys in two spellings."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from posixpath import basename, dirname
from typing import Annotated, Any

from pydantic import Field, ValidationError

from evalgate import errors
from evalgate.config import yaml
from evalgate.errors import Place, Problem
from evalgate.formats import json_source
from evalgate.formats.json_source import Path, Problems, Spot, described
from evalgate.formats.kind import first_keys
from evalgate.model.shapes import MOST_LEVELS, to_snake
from evalgate.system import patterns
from evalgate.text import words
from evalgate.values import JsonObject, elements, frozen_dataclass, grouped, member, only
from evalgate.worker.pipe import present
from . import cxas, shapes
from .cxas import Conversation, Conversations, Simulation, Simulations, ToolTests
from .shapes import (
    Evaluation,
    EvaluationDataset,
    EvaluationExpectation,
    EvaluationMetricsThresholds,
    EvaluationPersona,
    EvaluationResult,
    EvaluationRun,
    EvaluationSettings,
    GoldenTurn,
    Proto,
    Scenario,
    ToolCall,
)

ENDINGS = (".json", ".yaml", ".yml")

APP_NAME = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/apps/[^/\s]+")

MATCH_TYPES = ("ignore", "semantic", "contains", "regexp")
"""The comparison of an argument: `{"$matchType": ..., "$originalValue": ...}` in place of a
value."""


class Kind(enum.StrEnum):
    """The kind of a file's content."""

    EVALUATION = "evaluation"
    EXPECTATION = "expectation"
    DATASET = "dataset"
    PERSONA = "persona"
    RESULT = "result"
    RUN = "run"
    APP = "app"  # app.json: thresholds, settings and personas; its other fields are the app's own
    CONVERSATIONS = "cxas goldens"
    SIMULATIONS = "cxas simulations"
    TOOL_TESTS = "cxas tool tests"


RESOURCES: Mapping[Kind, type[Proto]] = {
    Kind.EVALUATION: Evaluation,
    Kind.EXPECTATION: EvaluationExpectation,
    Kind.DATASET: EvaluationDataset,
    Kind.PERSONA: EvaluationPersona,
    Kind.RESULT: EvaluationResult,
    Kind.RUN: EvaluationRun,
}
"""Files with one resource."""

CXAS: Mapping[Kind, type[Proto]] = {
    Kind.CONVERSATIONS: Conversations,
    Kind.SIMULATIONS: Simulations,
    Kind.TOOL_TESTS: ToolTests,
}


class AppEvaluation(Proto):
    """An app's settings for its evaluations."""

    evaluation_metrics_thresholds: EvaluationMetricsThresholds | None = None
    evaluation_settings: EvaluationSettings | None = None
    evaluation_personas: Annotated[tuple[EvaluationPersona, ...], Field(max_length=30)] = ()


SHAPES: Mapping[Kind, type[Proto]] = {**RESOURCES, Kind.APP: AppEvaluation}
"""Resources that are a message of the API."""

WRITABLE = (Kind.EXPECTATION, Kind.EVALUATION, Kind.DATASET)
"""What may be written, in this order: a resource comes before those that refer to it."""

APPLIES = (Kind.APP, Kind.PERSONA, Kind.EXPECTATION)
"""Settings for the evaluations of the same app."""

COLLECTIONS = {
    "evaluations": Kind.EVALUATION,
    "evaluationExpectations": Kind.EXPECTATION,
    "evaluationDatasets": Kind.DATASET,
    "evaluationPersonas": Kind.PERSONA,
    "results": Kind.RESULT,
    "evaluationRuns": Kind.RUN,
}
"""The collections in names of resources, and the folders of an export."""

COLLECTION_OF = {kind: name for name, kind in COLLECTIONS.items()}

FOLDERS = frozenset({*COLLECTIONS, "evals"})
"""The folders of evaluations, and of what belongs to them, in that of an app."""


@frozen_dataclass
class Resource:
    """A resource, or its counterpart in a file for `cxas`. `path`: its place in its file.

    `message` of a golden for `cxas` is the Evaluation that it becomes."""

    kind: Kind
    file: str
    path: Path
    message: Proto
    place: Place

    @property
    def content(self) -> JsonObject:
        """The fields that a caller can write."""
        return shapes.content_of(self.message)

    @property
    def name(self) -> str:
        """Its name; "" without one."""
        return str(getattr(self.message, "name", ""))

    @property
    def id(self) -> str:
        """The last part of its name; without a name, an id from its title."""
        if self.kind in RESOURCES and self.name:
            return basename(self.name)
        return self.title if self.path else file_name(self.title)

    @property
    def title(self) -> str:
        """Its name for people."""
        names = (getattr(self.message, attribute, "") for attribute in ("display_name", "name"))
        return next(filter(None, names), stem(self.file))


@frozen_dataclass
class Reading:
    """The content of a file. `raw`: its whole content as in the file, None if it cannot be read.

    A resource with an error is not in `resources`. `prompts`: those of files for `cxas`, which
    stand in the place of CES's names, by the last part of the names."""

    kind: Kind
    resources: tuple[Resource, ...] = ()
    problems: tuple[Problem, ...] = ()
    raw: Any = None
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def stem(file: str) -> str:
    """A file's name without its ending."""
    return basename(file).rsplit(".", 1)[0]


def file_name(title: str) -> str:
    """A name for a file or a folder that people recognize."""
    return re.sub(r"[^\w.-]+", "_", title)[:80].strip("._") or "evaluation"


# --- kinds ----------------------------------------------------------------------------------------

_KEY = r"[\"']?([A-Za-z_]\w*)[\"']?[ \t]*:"
_TOP_KEY = re.compile(f"^{_KEY}", re.MULTILINE)
_INNER_KEY = re.compile(rf"^[ \t]+(?:-[ \t]+)?{_KEY}|^-[ \t]+{_KEY}", re.MULTILINE)
_FLOW_KEY = re.compile(rf"[{{,]\s*{_KEY}")
_HEAD = 65_536  # the number of characters that are read
_MARKS = (
    # the keys at the top, and one key below
    (Kind.CONVERSATIONS, "conversations", "turns"),
    (Kind.SIMULATIONS, "evals", "steps"),
    (Kind.TOOL_TESTS, "tests", "tool"),
    (Kind.EXPECTATION, "llm_criteria", "prompt"),
    (Kind.RESULT, "golden_result", ""),
    (Kind.RESULT, "scenario_result", ""),
    (Kind.RESULT, "evaluation_status execution_state", ""),
    (Kind.RUN, "evaluation_run_summaries", ""),
    (Kind.RUN, "evaluation_results evaluation_type", ""),
    (Kind.EVALUATION, "display_name golden", "turns"),
    (Kind.EVALUATION, "display_name scenario", "task"),
    (Kind.EVALUATION, "golden name", "turns"),
    (Kind.EVALUATION, "scenario name", "task"),
    (Kind.PERSONA, "display_name personality", ""),
    (Kind.DATASET, "display_name evaluations", ""),
)


def kind_of(text: str, *, file: str) -> Kind | None:
    """The kind of a file, by the first keys of its content; None if it is not a CES file.

    In an export's layout (`evaluations/NAME/NAME.json`, `evaluationExpectations/`) the folder
    decides, so that a broken file, or one with a misspelled key, is reported."""
    if not file.endswith(ENDINGS):
        return None
    if file.endswith(".json") or text.lstrip("\ufeff \t\r\n").startswith("{"):  # YAML reads JSON
        top, opening, inner_keys, innermost = first_keys(text)
        if not file.endswith(".json") and not any(top):  # YAML without quotes
            top = {to_snake(key) for key in _FLOW_KEY.findall(text[:_HEAD])}
            innermost |= top
        elif opening == "[":  # in the place of an evaluation, a list is an error
            return kind_by_folder(file) if inner_keys & _OF_EVALUATION else None
        inner_keys |= innermost
    else:
        head = text[:_HEAD]
        top = {to_snake(key) for key in _TOP_KEY.findall(head)}
        inner_keys = {to_snake(first or second) for first, second in _INNER_KEY.findall(head)}
    if stem(file) == "app" and top & AppEvaluation.model_fields.keys():
        return Kind.APP
    for kind, needed, within in _MARKS:
        if top.issuperset(needed.split()) and (not within or within in inner_keys):
            return kind
    return kind_by_folder(file) if not any(top) or not top.isdisjoint(_OF_EVALUATION) else None


_OF_EVALUATION = frozenset({"display_name", "golden", "scenario"})


def kind_by_folder(file: str) -> Kind | None:
    """The kind of a file by its place in an export's layout."""
    if not file.endswith(ENDINGS):
        return None
    folders = file.split("/")[-3:-1]
    if folders == ["evaluations", stem(file)]:
        return Kind.EVALUATION
    marks = {"evaluationExpectations", "evaluationDatasets", "evaluationPersonas"} & {*folders}
    return COLLECTIONS[marks.pop()] if marks else None


# --- reading --------------------------------------------------------------------------------------


def parse(text: str | Problem, *, file: str, kind: Kind | None = None) -> Reading:
    """Read a file, or note the problem that prevents it; `file`: its name relative to the
    repository; `kind`: its kind if known."""
    if isinstance(text, Problem):
        return Reading(kind=kind or kind_by_folder(file) or Kind.EVALUATION, problems=(text,))
    kind = kind or kind_of(text, file=file) or Kind.EVALUATION
    problems = Problems(text, file=file)
    spot = Spot(problems)
    raw = (
        json_source.read(text, problems, consumer=lambda *_: None)
        if file.endswith(".json")
        else json_source.read_yaml(text, problems, loader_type=yaml.JsonLoader)
    )
    if not isinstance(raw, dict) and not (raw is None and spot.is_broken):
        description = "an empty file" if raw is None else described(raw)
        spot.error("wrong-type", f"expected an object, found {description}")
    if spot.is_broken:
        return Reading(kind=kind, problems=problems.all())
    reader = _Reader(problems)
    if kind is Kind.APP:
        reader.app(raw)
    elif kind in CXAS:
        reader.of_cxas(raw, kind)
    else:
        reader.resource(raw, (), kind)
    return Reading(
        kind=kind,
        resources=tuple(reader.resources),
        problems=problems.all(),
        raw=raw,
        prompts=reader.prompts,
    )


def parse_message(
    raw: Any, kind: Kind, *, file: str, is_partial: bool = False, unknown: list[str] | None = None
) -> tuple[Proto | None, tuple[Problem, ...]]:
    """A message from a caller, and all of its problems; None if one is an error.

    `is_partial`: the message is a part of an update, so required fields may be absent. `unknown`:
    collects the places of unknown fields, which are then dropped and not reported: the API may be
    newer than evalgate."""
    problems = Problems("", file=file)
    problems.use_places(lambda path: Place(file, json_path=json_source.path_text(path)))
    if not isinstance(raw, dict):
        Spot(problems).wrong_type("an object", raw)
        return None, problems.all()
    reader = _Reader(problems, is_partial=is_partial, unknown=unknown)
    if is_partial:
        return reader.message(SHAPES[kind], raw, ()), problems.all()
    resource = reader.resource(raw, (), kind)
    return (resource.message if resource and not problems.error_count else None), problems.all()


class _Reader:
    """Reads the messages of one file. `is_partial`, `unknown`: as in `parse_message`."""

    def __init__(
        self, problems: Problems, *, is_partial: bool = False, unknown: list[str] | None = None
    ) -> None:
        Proto.build()
        self.resources: list[Resource] = []
        self.prompts: dict[str, str] = {}
        self._problems, self._is_partial, self._unknown = problems, is_partial, unknown

    def resource(self, raw: Any, path: Path, kind: Kind) -> Resource | None:
        """Read the resource at `path`; None if it has an error, which is reported."""
        if kind is Kind.EVALUATION:
            raw = self._with_named_expectations(raw, path)
        message = self.message(SHAPES[kind], raw, path)
        spot = Spot(self._problems, path)
        if isinstance(message, Evaluation):
            for number, turn in enumerate(message.golden.turns if message.golden else ()):
                _check_turn(turn, spot.at("golden", "turns", number))
            scenario = message.scenario or Scenario()
            for number, expectation in enumerate(scenario.scenario_expectations):
                tool = expectation.tool_expectation
                within = ("scenarioExpectations", number, "toolExpectation", "expectedToolCall")
                if tool is not None and tool.expected_tool_call is not None:
                    _check_args(tool.expected_tool_call, spot.at("scenario", *within, "args"))
        if message is None or spot.is_broken:
            return None
        return self._add(kind, path, message)

    def app(self, raw: JsonObject) -> None:
        """Read an app's settings for its evaluations, and each of its personas; its other fields
        are not ours."""
        fields = shapes.fields_of(AppEvaluation)
        for key in raw:
            if not isinstance(key, str) or key in fields:
                continue
            if near := words.nearest(key[:100], fields, cutoff=0.8):
                message = f"`{key}` is not read"
                spot = Spot(self._problems, (key,))
                spot.warning("unknown-key", message, f"did you mean `{near}`?")
        app = self.message(AppEvaluation, only(raw, fields), ())
        if app is not None:
            self._add(Kind.APP, (), app)
            for number, persona in enumerate(app.evaluation_personas):
                self._add(Kind.PERSONA, ("evaluationPersonas", number), persona)

    def of_cxas(self, raw: JsonObject, kind: Kind) -> None:
        """Read a file for `cxas`: one list, under the key that is required."""
        shape = CXAS[kind]
        document = self.message(shape, raw, ())
        (key,) = shape.required
        for number, entry in enumerate(getattr(document, key, ())):
            spot = Spot(self._problems, (key, number))
            resource = entry
            match entry:
                case Conversation():
                    self._note_prompts((*document.common_expectations, *entry.expectations))
                    resource = cxas.golden_of(entry, document)
                    assert resource.golden is not None
                    for turn_number, turn in enumerate(resource.golden.turns):
                        path = (*spot.path, "turns", turn_number)
                        _check_turn(turn, _TurnSpot(self._problems, path))
                case Simulation():
                    self._note_prompts(entry.expectations)
                    for step_number, step in enumerate(entry.steps):
                        if not step.goal and not step.static_utterance:
                            message = "`goal` or `static_utterance` is missing"
                            spot.at("steps", step_number).error("missing-key", message)
            self._add(kind, spot.path, resource)

    def _note_prompts(self, prompts: Iterable[str]) -> None:
        self.prompts |= {cxas.expectation_id(prompt): prompt for prompt in prompts}

    def _add(self, kind: Kind, path: Path, message: Proto) -> Resource:
        place = self._problems.place_of(path)
        resource = Resource(
            kind=kind, file=self._problems.file, path=path, message=message, place=place
        )
        self.resources.append(resource)
        return resource

    def _with_named_expectations(self, raw: Any, path: Path) -> Any:
        """An evaluation with all expectations by name; in an export, whole expectations may stand
        in the place of names."""
        spellings = ("evaluationExpectations", "evaluation_expectations")
        for key, listed in itertools.product(("golden", "scenario"), spellings):
            names = []
            expectations = elements(member(raw, key), listed)
            for number, expectation in enumerate(expectations):
                if not isinstance(expectation, dict):
                    names.append(expectation)
                elif resource := self.resource(
                    expectation, (*path, key, listed, number), Kind.EXPECTATION
                ):
                    names.append(resource.name or resource.title)
            if expectations:
                raw = {**raw, key: {**raw[key], listed: names}}
        return raw

    def message(self, shape: type[Proto], raw: Any, path: Path) -> Any:
        """The message at `path`; None if it has an error, which is reported."""
        spot = Spot(self._problems, path)
        cleaned = self._clean(spot, 0, shape, raw)
        try:
            message = shape.model_validate(cleaned)
        except ValidationError as error:
            _tell(error, cleaned, spot)
            return None
        return None if spot.is_broken else message

    def _clean(
        self, spot: Spot, depth: int, shape: type[Proto], raw: Any, *steps: str | int
    ) -> Any:
        """The keys of a message in one spelling, without nulls, which mean absent; reports problems
        with its keys. `steps`: its place below the spot."""
        spot = spot.at(*steps)
        if not isinstance(raw, dict):
            return raw
        if depth > MOST_LEVELS:
            top = Spot(self._problems, spot.path[:10])
            top.error("json-too-deep", "the values are nested too deeply")
            return None
        fields = shapes.fields_of(shape)
        content = JsonObject()
        spelled = dict[str, str]()
        for key, value in raw.items():
            field = fields.get(key)
            if field is None and self._unknown is not None:
                self._unknown.append(json_source.path_text(spot.at(key).path))
            elif field is None:
                _unknown_key(shape, raw, key, spot)
            elif field.key in spelled:
                message = f"`{spelled[field.key]}` and `{key}` are the same field"
                spot.at(key).error("duplicate-key", message, "Delete one.")
            elif value is not None:
                spelled[field.key] = key
                clean = partial(self._clean, spot.at(key), depth + 1)
                content[field.key] = field.mapped(value, clean)
        self._check_required(shape, content, spot)
        return content

    def _check_required(self, shape: type[Proto], content: JsonObject, spot: Spot) -> None:
        """Required fields and oneofs of a message."""
        fields = shapes.fields_of(shape)
        for group in shape.oneofs.values():
            keys = [fields[name].key for name in group]
            present_keys = [key for key in keys if key in content]
            if len(present_keys) > 1:
                message = f"only one of {words.listed_names(present_keys)} may be given"
                spot.at(present_keys[1]).error("ces-oneof", message)
            elif not (
                present_keys or self._is_partial or issubclass(shape, shapes.Result | cxas.Cxas)
            ):
                message = f"one of {words.listed_names(keys)} is missing"
                spot.error("ces-oneof", message)
        for name in shape.required if not self._is_partial else ():
            key = fields[name].key
            if content.get(key) in (None, "", []):
                hint = "" if key in content else json_source.instead_of(key, content)
                spot.error("missing-key", f"`{key}` is missing or empty", hint)


def _unknown_key(shape: type[Proto], raw: dict[Any, Any], key: Any, spot: Spot) -> None:
    if not isinstance(key, str):
        spot.error("wrong-type", f"expected text as a key, found {described(key)}")
        return
    fields = shapes.fields_of(shape)
    used = set(map(fields.get, raw))
    free = [field.key for field in fields.values() if field not in used]
    spot.at(key).unknown_key(shape.__name__, near=words.nearest(key[:100], free), is_error=True)


def _tell(error: ValidationError, raw: Any, spot: Spot) -> None:
    """The problems that pydantic reports; those of keys are known before."""
    reported_paths: set[Path] = set()
    for finding in error.errors(include_url=False):
        location, _ = json_source.fault_path(finding["loc"], raw)
        kind = finding["type"]
        if location in reported_paths:
            continue
        reported_paths.add(location)
        context = finding.get("ctx") or {}
        hint = f"did you mean `{context['near']}`?" if context.get("near") else ""
        code = "wrong-type" if kind == "wrong_type" else "wrong-value"
        message = finding["msg"]
        if kind == "too_long":
            message = f"at most {context.get('max_length')} are allowed"
        elif kind in _EXPECTED:
            code = "wrong-type"
            message = f"expected {_EXPECTED[kind]}"
        elif kind.startswith(("less_than", "greater_than")):
            message = message.replace("Input should be", "must be")
        suffix = f", found {described(finding.get('input'))}" if kind != "too_long" else ""
        spot.at(*location).error(code, f"{message}{suffix}", hint)


class _TurnSpot(Spot):
    """A turn of a golden for `cxas`: it stands for all places in it, which are others there."""

    __slots__ = ()

    def at(self, *steps: str | int) -> Spot:  # noqa: ARG002 - as above
        """The turn."""
        return self


def _check_turn(turn: GoldenTurn, spot: Spot) -> None:
    expectations = [
        (step.expectation, spot.at("steps", number, "expectation"))
        for number, step in enumerate(turn.steps)
        if step.expectation is not None
    ]
    if not any(step.user_input for step in turn.steps):
        spot.warning("ces-turn", "a turn without user input: the agent gets no message")
    if not any(expectation.agent_response for expectation, _ in expectations):
        message = "a turn without an expected answer: any answer is an unexpected response, which fails a golden"
        hint = "Add an `agentResponse`, if only with `skipEvaluation`."
        spot.warning("ces-turn", message, hint)
    expects_calls = any(
        expectation.tool_call is not None and not expectation.skip_evaluation
        for expectation, _ in expectations
    )
    for expectation, place in expectations:
        if expectation.no_tool_calls is False:
            message = "`noToolCalls` says something only as `true`"
            place.at("noToolCalls").error("wrong-value", message, "Delete it, or write true.")
        if expectation.no_tool_calls and expects_calls:
            message = (
                "`noToolCalls` beside an expected tool call in one turn: one of them always fails"
            )
            place.at("noToolCalls").error("wrong-value", message)
        if expectation.tool_call is not None:
            _check_args(expectation.tool_call, place.at("toolCall", "args"))


def _check_args(call: ToolCall, spot: Spot) -> None:
    """Report the problems of arguments with a comparison."""
    for name, value in (call.args or {}).items():
        if not isinstance(value, dict) or "$matchType" not in value:
            continue
        match = value["$matchType"]
        if match not in MATCH_TYPES:
            message = f"expected one of {words.listed_names(MATCH_TYPES)}, found {described(match)}"
            hint = words.suggest(str(match)[:50], MATCH_TYPES)
            spot.at(name, "$matchType").error("ces-match-type", message, hint)
        elif match != "ignore" and "$originalValue" not in value:
            message = "`$originalValue` is missing: there is nothing to compare with"
            spot.at(name).error("ces-match-type", message)
        elif match == "regexp":
            try:
                patterns.search(str(value["$originalValue"]), ())
            except (ValueError, patterns.SearchFailed):
                spot.at(name, "$originalValue").warning(
                    "ces-match-type", "not a regular expression"
                )


_EXPECTED = {**json_source.EXPECTED, "tuple_type": "a list"}


# --- a repository's resources ---------------------------------------------------------------------


@frozen_dataclass
class Library:
    """The CES resources of a repository, by file, and all problems of their files. `beside`: files
    that were not selected and apply to those that were."""

    readings: Mapping[str, Reading]
    problems: tuple[Problem, ...]
    beside: Mapping[str, Reading] = dataclasses.field(default_factory=dict)

    @property
    def all_files(self) -> Mapping[str, Reading]:
        """All files, including those that were not selected."""
        return {**self.beside, **self.readings}

    def of(self, *kinds: Kind) -> tuple[Resource, ...]:
        """The resources of some kinds, in the order of their files."""
        return tuple(
            resource
            for reading in self.readings.values()
            for resource in reading.resources
            if resource.kind in kinds
        )

    @property
    def app_names(self) -> set[str]:
        """The apps of the resources that have names."""
        matches = (APP_NAME.match(resource.name) for resource in self.of(*WRITABLE))
        return {match[0] for match in matches if match}


def library(texts: Mapping[str, str | Problem]) -> Library:
    """Read files by name, or note the problems that prevent it, and check the references between
    them."""
    return with_problems({file: parse(text, file=file) for file, text in sorted(texts.items())})


def with_problems(readings: Mapping[str, Reading]) -> Library:
    """The library of some files, with the problems of each and those between them: names that occur
    twice in an app or a file for `cxas`, references that lead nowhere, and apps with two files."""
    problems = [problem for reading in readings.values() for problem in reading.problems]
    files: dict[str, str] = {}
    for file in (file for file, reading in readings.items() if reading.kind is Kind.APP):
        first_file = files.setdefault(app_folder(file), file)
        if first_file != file:
            message = f"{first_file} says already what applies to the evaluations of this app"
            hint = "Delete one of the two files."
            problems.append(errors.error("ces-duplicate-name", message, Place(file), hint))
    apps = grouped(
        (app_folder(resource.file), resource)
        for reading in readings.values()
        for resource in reading.resources
    )
    for resources in apps.values():
        problems += (*_duplicate_names(resources), *_references(resources))
    return Library(readings=readings, problems=tuple(problems))


def app_folder(file: str) -> str:
    """The folder of the app of a file: the one above `evaluations` and its siblings; otherwise the
    file's own."""
    folders = itertools.takewhile(lambda folder: folder not in FOLDERS, dirname(file).split("/"))
    return "/".join(folders)


def _duplicate_names(resources: list[Resource]) -> Iterator[Problem]:
    resources_by_name: dict[tuple[Kind, str, str, str], Resource] = {}
    for resource in resources:
        if resource.kind in (Kind.APP, Kind.RESULT, Kind.RUN):
            continue
        within, title = (
            ("", "displayName") if resource.kind in RESOURCES else (resource.file, "name")
        )
        names = {title: resource.title, **present(name=resource.name)}
        for key, value in names.items():
            name = (resource.kind, within, key, value)
            first_resource = resources_by_name.setdefault(name, resource)
            # two evaluations may contain the same expectation
            if first_resource is not resource and (
                within or first_resource.message != resource.message or not resource.path
            ):
                message = f"the {key} {value[:80]!r} is already used ({first_resource.place})"
                hint = f"Each one in {'a file' if within else 'an app'} needs its own."
                yield errors.error("ces-duplicate-name", message, resource.place, hint)


def _references(resources: list[Resource]) -> Iterator[Problem]:
    """Check references to expectations and evaluations, by either name."""
    names_by_kind = grouped(
        (resource.kind, name) for resource in resources for name in (resource.id, resource.title)
    )
    for resource in resources:
        message = resource.message
        kind, names, _ = references_of(message)
        for name in names if resource.kind in RESOURCES else ():  # goldens for cxas have no names
            known_names = names_by_kind.get(kind, [])
            last_part = basename(name)
            if last_part in known_names:
                continue
            hint = words.suggest(last_part[:100], known_names)
            text = f"no {kind} {name[-100:]!r} is there"
            # an export of single evaluations has no expectations: that is not an error
            report = errors.error if known_names else errors.warning
            yield report("ces-reference", text, resource.place, hint)


def references_of(message: Proto) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    """The references of a resource: the kind, the names, and the keys of the list with the
    names."""
    if isinstance(message, EvaluationDataset):
        return Kind.EVALUATION, message.evaluations, ("evaluations",)
    key = shapes.present_field(message) if isinstance(message, Evaluation) else ""
    names = getattr(message, key).evaluation_expectations if key else ()
    return Kind.EXPECTATION, names, (key, "evaluationExpectations")
