"""Which criteria a suite has: named by the user, beside its file, above it, or ADK's defaults."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from evalgate import formats
from evalgate.config import gate_file as config_gate_file
from evalgate.config import globs
from evalgate.config.gate_file import GateFile, SuiteRule
from evalgate.config.yaml import Locator
from evalgate.criteria import base as criteria_base
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import walk
from evalgate.errors import Place, Problem, Severity
from evalgate.formats import FileKind
from evalgate.model import OPEN, ConfigOrigin, CriteriaSource, CriterionUse, SimulatorUse, shapes
from evalgate.text import decoding, words

# -- Criteria as configured, checked against the table of criteria that this version grades --

Specs = Mapping[str, CriterionSpec]

FOR_ALL = "include_intermediate_responses_in_final"
"""ADK's option of every criterion (BaseCriterion), which two of them read."""
_BOOLEAN = TypeAdapter(bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCriteria:
    """Criteria in the order of the file. One that has an error among `problems` is kept as it was written."""

    criteria: tuple[CriterionUse, ...]
    problems: tuple[Problem, ...] = ()


def check(uses: Iterable[CriterionUse], *, specs: Specs) -> CheckedCriteria:
    """Check each criterion's name, threshold and options.

    Custom metrics (`code`) have no scale and options of their own, so that only a threshold that is no number is found
    there.
    """
    checked: list[CriterionUse] = []
    problems: list[Problem] = []
    for use in uses:
        spec = specs.get(use.name)
        if use.code is not None:
            problems.extend(_number_problems(use))
            checked.append(dataclasses.replace(use, scale=OPEN))
        elif spec is None:
            problems.append(_name_problem(use, specs=specs))
            checked.append(use)
        else:
            known, found = _check_known(use, spec)
            checked.append(criteria_base.with_facts(known, spec))
            problems.extend(found)
    return CheckedCriteria(criteria=tuple(checked), problems=tuple(problems))


def informational_uses(specs: Specs, *, beside: Iterable[CriterionUse] = ()) -> tuple[CriterionUse, ...]:
    """The informational criteria of the table that are not among `beside`: every suite is told them."""
    named = {use.name for use in beside}
    return tuple(
        criteria_base.with_facts(
            CriterionUse(name=spec.name, threshold=None, informational=True, lower_is_better=spec.lower_is_better), spec
        )
        for spec in specs.values()
        if spec.informational and spec.name not in named
    )


def _check_known(use: CriterionUse, spec: CriterionSpec) -> tuple[CriterionUse, list[Problem]]:
    options, problems = _checked_options(use, spec)
    threshold = use.threshold
    if spec.informational:
        if threshold is not None:
            problems.append(_informational_threshold(use))
        threshold = None
    known = dataclasses.replace(
        use,
        threshold=threshold,
        options=options,
        informational=use.informational or spec.informational,
        lower_is_better=use.lower_is_better or spec.lower_is_better,
    )
    if not known.informational:
        problems.extend(_threshold_problems(known, spec))
    if use.lower_is_better and not spec.lower_is_better and spec.scale.highest is not None:
        problems.append(_turned_round(use, spec))
    return known, problems


# --- names ----------------------------------------------------------------------------------------


def _name_problem(use: CriterionUse, *, specs: Specs) -> Problem:
    close = words.nearest(use.name, specs)
    if close:
        hint = f"Did you mean `{close}`?"
    else:
        known = ", ".join(sorted(name for name, spec in specs.items() if not spec.informational))
        hint = f"Known criteria: {known}. A metric of your own needs an entry in `custom_metrics`."
    return _error(
        "unknown-criterion", f"`{use.name}` is not a known criterion; ADK would skip it silently", use.place, hint
    )


# --- thresholds -----------------------------------------------------------------------------------


def _threshold_problems(use: CriterionUse, spec: CriterionSpec) -> list[Problem]:
    problems = _number_problems(use)
    threshold = use.threshold
    if problems or threshold is None:
        return problems
    lowest = -math.inf if spec.scale.lowest is None else spec.scale.lowest
    highest = math.inf if spec.scale.highest is None else spec.scale.highest
    always = highest if use.lower_is_better else lowest
    if threshold == always and math.isfinite(always):
        problems.append(
            _warning(
                "threshold-always-passes",
                f"`{use.name}`: every score passes a threshold of {threshold:g}",
                use.place,
                f"The criterion scores {_scale(spec)}; a threshold of {threshold:g} always passes.",
            )
        )
    elif not lowest <= threshold <= highest or math.isinf(threshold):
        unreachable = threshold < lowest if use.lower_is_better else threshold > highest
        effect = "no score can reach it" if unreachable else "every score passes it"
        problems.append(
            _error(
                "threshold-out-of-range",
                f"`{use.name}`: the threshold is {threshold:g}, the criterion scores {_scale(spec)}: {effect}",
                use.place,
                _rescaled(threshold, highest),
            )
        )
    return problems


def _number_problems(use: CriterionUse) -> list[Problem]:
    if use.threshold is None:
        message = f"`{use.name}` has no threshold"
        hint = f'Write `"{use.name}": 0.8`, or an object with a `threshold`.'
        return [] if use.informational else [_error("no-threshold", message, use.place, hint)]
    if math.isnan(use.threshold):
        return [_error("threshold-out-of-range", f"`{use.name}`: the threshold is NaN, not a number", use.place)]
    return []


def _scale(spec: CriterionSpec) -> str:
    match (spec.scale.lowest, spec.scale.highest):
        case (None, None):
            return "without bounds"
        case (lowest, None):
            return f"{lowest:g} or more"
        case (None, highest):
            return f"{highest:g} or less"
        case (lowest, highest):
            return f"{lowest:g} to {highest:g}"


def _rescaled(threshold: float, highest: float) -> str:
    """What a threshold on a scale of 10 or 100 would be on a scale up to 1; empty where nothing is evident."""
    if highest != 1 or not 2 <= threshold <= 100:
        return ""
    share = threshold / (10 if threshold <= 10 else 100)
    return f"Did you mean {share:g}?"


def _informational_threshold(use: CriterionUse) -> Problem:
    return _warning(
        "threshold-ignored",
        f"`{use.name}` is informational: its threshold of {use.threshold:g} is ignored",
        use.place,
        "It is always in the reports; remove it from the criteria.",
    )


def _turned_round(use: CriterionUse, spec: CriterionSpec) -> Problem:
    return _warning(
        "scale-turned-round",
        f"`{use.name}` is best at {spec.scale.highest:g}; with `lower_is_better` the worst answers pass",
        use.place,
        "Remove `lower_is_better`: it is for cost-like custom metrics. ADK ignores it.",
    )


# --- options --------------------------------------------------------------------------------------


def _checked_options(use: CriterionUse, spec: CriterionSpec) -> tuple[Mapping[str, Any], list[Problem]]:
    """The options that count, and what is wrong: an error where ADK refuses, a warning where it takes no notice."""
    strays = set() if spec.ours else set(use.options) - _spellings(spec.options)
    options = {name: value for name, value in use.options.items() if name not in strays}
    problems = [found for name in use.options if name in strays and (found := _stray(use, spec, name))]
    try:
        valid = spec.options.model_validate(options)
    except ValidationError as error:
        wrong = [_option_problem(use, spec, each) for each in error.errors(include_url=False)]
        return use.options, [*problems, *wrong]
    return valid.model_dump(mode="json", exclude_unset=True), problems


def _spellings(model: type[BaseModel]) -> set[str]:
    return {name for field, info in model.model_fields.items() for name in (field, info.alias) if name}


def _stray(use: CriterionUse, spec: CriterionSpec, name: str) -> Problem | None:
    """What is wrong with an option that the criterion does not have: ADK keeps any, and reads none of them.

    One is ADK's for every criterion, also where it is without effect.
    """
    if shapes.field(name) == FOR_ALL:
        try:
            _BOOLEAN.validate_python(use.options[name])
        except ValidationError as error:
            (found,) = error.errors(include_url=False)
            return _option_problem(use, spec, {**found, "loc": (name,)})
        return None
    known = list(spec.options.model_fields)
    close = words.nearest(name, known)
    hint = f"Known options: {', '.join(known)}." if known else "Its only option is `threshold`."
    return _warning(
        "unknown-option",
        f"`{use.name}` has no option `{name}` (ignored, also by ADK)",
        _place_of(use, name),
        f"Did you mean `{close}`?" if close else hint,
    )


def _place_of(use: CriterionUse, shown: str) -> Place | None:
    return use.place and dataclasses.replace(use.place, json_path=f"{use.place.json_path}.{shown}".rstrip("."))


def _option_problem(use: CriterionUse, spec: CriterionSpec, error: ErrorDetails) -> Problem:
    inner = error.get("ctx", {}).get("at", ()) if error["type"] == config_gate_file.REFUSED else ()
    path = (*error["loc"], *inner)
    shown = _dotted(path)
    place = _place_of(use, shown)
    hint = ""
    match error["type"]:
        case "extra_forbidden":
            names = _names_at(spec.options, path[:-1])
            message = f"`{use.name}` has no option `{shown}`"
            close = words.nearest(str(path[-1]), names) if path else None
            known = f"Known options: {', '.join(names)}." if names else "Its only option is `threshold`."
            hint = f"Did you mean `{close}`?" if close else known
        case "missing":
            message = f"`{use.name}`: the option `{shown}` is missing"
        case config_gate_file.REFUSED:
            message = f"`{use.name}`: `{_dotted(error['loc'])}`: {error['msg']}"
            near = error.get("ctx", {}).get("near")
            hint = f"Did you mean `{near}`?" if near else ""
        case _:
            expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            expected = expected.removesuffix(", unable to interpret input")
            message = f"`{use.name}`: `{shown}` is {_found(error['input'])}, expected {expected}"
    return _error("bad-option", message, place, hint)


def _dotted(path: tuple[int | str, ...]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _found(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _names_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The field names of the model that stands at `path` within `model`; empty where none does."""
    here: type[BaseModel] | None = model
    for step in path:
        if isinstance(step, int) or here is None:
            continue
        found = next((field for name, field in here.model_fields.items() if step in (name, field.alias)), None)
        here = _model_in(found.annotation) if found else None
    return list(here.model_fields) if here else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in typing.get_args(annotation) if (found := _model_in(each))), None)


def _error(code: str, message: str, place: Place | None, hint: str = "") -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)


def _warning(code: str, message: str, place: Place | None, hint: str) -> Problem:
    return Problem(severity=Severity.WARNING, code=code, message=message, place=place, hint=hint)


ADK_DEFAULTS: Mapping[str, float] = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
"""What ADK scores where no config is found (google-adk 2.13, eval_config)."""

ADK_CONFIGS = ("test_config.json",)
DATASET_CONFIGS = (*ADK_CONFIGS, "eval_config.yaml", "eval_config.yml")
EXAMPLE = '{"criteria": {"response_match_score": 0.8}}'
_YAML = (".yaml", ".yml")
LOOKALIKES = ("eval_config.json", "test-config.json", "eval_config.yaml", "eval_config.yml")
"""Files that people mean as criteria and that neither ADK nor we find by themselves for an evaluation set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where criteria may come from. `explicit`: for every suite. `places`: of what stands in the gate file."""

    root: Path
    config_files: frozenset[str]
    explicit: Path | None = None
    gate_file: GateFile = field(default_factory=GateFile)
    places: Locator | None = None

    @property
    def gate_file_name(self) -> str:
        """How the gate file is called."""
        return self.places.file if self.places is not None else "evalgate.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCriteria:
    """The checked criteria of a suite, informational ones last, where they come from, and who leads its scenarios."""

    criteria: tuple[CriterionUse, ...]
    source: CriteriaSource
    simulator: SimulatorUse


@dataclass(slots=True, kw_only=True)
class CriteriaFinder:
    """Finds the criteria of suite after suite; each config is read once, its problems told once."""

    sources: Sources
    specs: Mapping[str, CriterionSpec]
    problems: list[Problem] = field(default_factory=list)
    _read: dict[str, tuple[CriterionUse, ...]] = field(default_factory=dict)
    _foreign: dict[str, bool] = field(default_factory=dict)
    _simulators: dict[str, SimulatorUse] = field(default_factory=dict)

    def criteria_of(self, key: str, *, is_dataset: bool) -> SuiteCriteria:
        """The first that there is: explicit > gate file > beside > above > ADK's defaults."""
        sources = self.sources
        if sources.explicit is not None:
            uses, file = self._explicit(sources.explicit)
            return self._suite_criteria(uses, ConfigOrigin.EXPLICIT, file)
        index, rule = _last_rule(key, sources.gate_file)
        if rule is not None and rule.criteria is not None:
            uses = self._embedded(rule.criteria, index)
            return self._suite_criteria(uses, ConfigOrigin.EMBEDDED, sources.gate_file_name)
        if rule is not None and rule.config is not None:
            named_by = f"{sources.gate_file_name} names it as `config` of suites[{index}]."
            uses = self._file(PurePosixPath(rule.config).as_posix(), named_by=named_by)
            return self._suite_criteria(uses, ConfigOrigin.EXPLICIT, rule.config)
        found = self._nearest_of_dataset(key) if is_dataset else nearest_config(key, sources.config_files, ADK_CONFIGS)
        if found is not None:
            beside = PurePosixPath(found).parent == PurePosixPath(key).parent
            return self._suite_criteria(self._file(found), ConfigOrigin.BESIDE if beside else ConfigOrigin.ABOVE, found)
        return self._suite_criteria(self._defaults(), ConfigOrigin.DEFAULTS, "")

    def _nearest_of_dataset(self, key: str) -> str | None:
        """The nearest test_config.json or config of agents-cli; others call files eval_config.yaml as well."""
        left = self.sources.config_files
        while (found := nearest_config(key, left, DATASET_CONFIGS)) is not None and self._is_foreign(found):
            left = left - {found}
        return found

    def _is_foreign(self, path: str) -> bool:
        if path not in self._foreign:
            self._foreign[path] = path.endswith(_YAML) and self._is_other(path)
            if self._foreign[path]:
                self.problems.append(_foreign(path))
        return self._foreign[path]

    def _is_other(self, path: str) -> bool:
        """Whether the content is none of ours; of what cannot be read its reader will tell."""
        data = walk.read_bytes(self.sources.root, path)
        text = data if isinstance(data, Problem) else decoding.decode(data, file=path)
        return isinstance(text, str) and formats.recognise(text, file=path) is FileKind.OTHER

    def _suite_criteria(self, uses: tuple[CriterionUse, ...], origin: ConfigOrigin, file: str) -> SuiteCriteria:
        informational = informational_uses(self.specs, beside=uses)
        return SuiteCriteria(
            criteria=(*uses, *informational),
            source=CriteriaSource(origin=origin, file=file),
            simulator=self._simulators.get(PurePosixPath(file).as_posix(), SimulatorUse()),
        )

    def _explicit(self, path: Path) -> tuple[tuple[CriterionUse, ...], str]:
        full = path if path.is_absolute() else self.sources.root / path
        root = self.sources.root
        shown = full.relative_to(root).as_posix() if full.is_relative_to(root) else full.as_posix()
        if shown not in self._read:
            named_by = "It is set as `criteria`; ADK would silently use its defaults."
            self._read[shown] = self._parsed(walk.read_named(full, shown=shown), shown, named_by=named_by)
        return self._read[shown], shown

    def _file(self, path: str, *, named_by: str = "") -> tuple[CriterionUse, ...]:
        if path not in self._read:
            self._read[path] = self._parsed(walk.read_bytes(self.sources.root, path), path, named_by=named_by)
        return self._read[path]

    def _parsed(self, data: bytes | Problem, path: str, *, named_by: str) -> tuple[CriterionUse, ...]:
        text = data if isinstance(data, Problem) else decoding.decode(data, file=path)
        if isinstance(text, Problem):
            self.problems.append(dataclasses.replace(text, hint=text.hint or named_by))
            return ()
        return self._checked(text, path)

    def _embedded(self, raw: Mapping[str, Any], index: int) -> tuple[CriterionUse, ...]:
        """Criteria within the gate file: the same reader, with the places of the gate file."""
        name = f"{self.sources.gate_file_name}#{index}"
        if name not in self._read:
            told = len(self.problems)
            uses = self._checked(json.dumps({"criteria": raw}, default=str), self.sources.gate_file_name)
            self._read[name] = tuple(dataclasses.replace(use, place=self._in_rule(use.place, index)) for use in uses)
            self.problems[told:] = [
                dataclasses.replace(problem, place=self._in_rule(problem.place, index))
                for problem in self.problems[told:]
            ]
        return self._read[name]

    def _in_rule(self, place: Place | None, index: int) -> Place | None:
        if place is None:
            return None
        json_path = f"$.suites[{index}].{place.json_path.removeprefix('$').removeprefix('.')}".rstrip(".")
        found = self.sources.places.find(json_path) if self.sources.places is not None else place
        return dataclasses.replace(found, file=self.sources.gate_file_name, json_path=json_path)

    def _checked(self, text: str, path: str) -> tuple[CriterionUse, ...]:
        kind = formats.recognise(text, file=path)
        parse = formats.CRITERIA_FILES.get(kind, formats.parse_criteria)
        read = parse(text, file=path)
        checked = check(read.criteria, specs=self.specs)
        self.problems.extend((*read.problems, *checked.problems))
        if read.simulator is not None:
            self._simulators[path] = read.simulator
        if not any(problem.severity is Severity.ERROR for problem in read.problems):
            self.problems.extend(_vacuous(checked.criteria, path, kind=kind))
        return checked.criteria

    def _defaults(self) -> tuple[CriterionUse, ...]:
        uses = (CriterionUse(name=name, threshold=value) for name, value in ADK_DEFAULTS.items() if name in self.specs)
        return check(uses, specs=self.specs).criteria


def nearest_config(key: str, config_files: frozenset[str], names: tuple[str, ...]) -> str | None:
    """The config file with one of `names` in the folder of `key`, else in the nearest folder above it."""
    for folder in PurePosixPath(key).parents:
        for name in names:
            if (path := (folder / name).as_posix()) in config_files:
                return path
    return None


def _last_rule(key: str, gate_file: GateFile) -> tuple[int, SuiteRule | None]:
    """The last rule that speaks of the criteria of `key`, and its position."""
    for index in reversed(range(len(gate_file.suites))):
        rule = gate_file.suites[index]
        if (rule.criteria is not None or rule.config is not None) and globs.matches(key, rule.match):
            return index, rule
    return -1, None


def _foreign(path: str) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="foreign-config",
        message=f"`{path}` is ignored: it has neither `metrics_to_run` nor `custom_metrics`, so it is not an "
        f"agents-cli config, and criteria are not read from YAML",
        place=Place(file=path),
        hint=f"If it holds criteria, write them into a test_config.json beside the dataset: {EXAMPLE}.",
    )


def _vacuous(uses: tuple[CriterionUse, ...], path: str, *, kind: FileKind) -> Iterator[Problem]:
    if not uses and kind is FileKind.DATASET_CONFIG:
        yield Problem(
            severity=Severity.ERROR,
            code="asserts-nothing",
            message="agents-cli metrics have no thresholds, so every answer would pass",
            place=Place(file=path),
            hint=f"Add a test_config.json next to the dataset: {EXAMPLE}. `criteria` are not read here.",
        )
    elif not uses:
        yield Problem(
            severity=Severity.ERROR,
            code="asserts-nothing",
            message="the config has no criteria, so every answer would pass",
            place=Place(file=path),
            hint=f"Add criteria under `criteria`: {EXAMPLE}.",
        )
    elif all(use.informational for use in uses):
        yield Problem(
            severity=Severity.ERROR,
            code="only-informational",
            message=f"every answer would pass: {words.listed(f'`{use.name}`' for use in uses)} "
            f"only {'informs' if len(uses) == 1 else 'inform'}",
            place=Place(file=path),
            hint="Add a criterion with a threshold.",
        )


def defaults_problems(keys: Sequence[str], config_files: frozenset[str]) -> Iterator[Problem]:
    """One warning for all suites that run on ADK's defaults, and files near them that may have been meant."""
    if not keys:
        return
    alike = sorted({path for key in keys if (path := nearest_config(key, config_files, LOOKALIKES))})
    defaults = " and ".join(f"{name} {value:g}" for name, value in ADK_DEFAULTS.items())
    files = f" for {words.counted(len(keys), 'file')} ({words.listed(keys)})" if len(keys) > 1 else ""
    yield Problem(
        severity=Severity.WARNING,
        code="default-criteria",
        message=f"no test_config.json next to or above the file, so ADK's defaults apply{files}: {defaults}",
        place=Place(file=keys[0]),
        hint=_defaults_hint(alike),
    )


def _defaults_hint(alike: list[str]) -> str:
    match alike:
        case []:
            return "Add a test_config.json next to or above the file."
        case [path] if path.endswith(_YAML):
            return f"{path} may hold criteria: write them into a test_config.json, {EXAMPLE}."
        case [path]:
            return f"{path} may hold criteria: rename it to test_config.json, or set `criteria: {path}`."
        case _:
            return (
                f"{words.listed(alike)} may hold criteria: rename them to test_config.json, or give each as `config` "
                "of a rule under `suites` in evalgate.yml."
            )
