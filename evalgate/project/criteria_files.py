"""Which criteria a suite has: named by the user, beside its file, above it, or ADK's defaults."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from evalgate import formats
from evalgate.config import criteria, globs
from evalgate.config.gate_file import GateFile, SuiteRule
from evalgate.config.yaml import Locator
from evalgate.criteria.base import CriterionSpec
from evalgate.errors import Place, Problem, Severity
from evalgate.formats import FileKind
from evalgate.model import ConfigOrigin, CriteriaSource, CriterionUse, SimulatorUse
from evalgate.project import reading
from evalgate.text import words

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
        data = reading.read_bytes(self.sources.root, path)
        text = data if isinstance(data, Problem) else formats.decode(data, file=path)
        return isinstance(text, str) and formats.recognise(text, file=path) is FileKind.OTHER

    def _suite_criteria(self, uses: tuple[CriterionUse, ...], origin: ConfigOrigin, file: str) -> SuiteCriteria:
        informational = criteria.informational_uses(self.specs, beside=uses)
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
            self._read[shown] = self._parsed(reading.read_named(full, shown=shown), shown, named_by=named_by)
        return self._read[shown], shown

    def _file(self, path: str, *, named_by: str = "") -> tuple[CriterionUse, ...]:
        if path not in self._read:
            self._read[path] = self._parsed(reading.read_bytes(self.sources.root, path), path, named_by=named_by)
        return self._read[path]

    def _parsed(self, data: bytes | Problem, path: str, *, named_by: str) -> tuple[CriterionUse, ...]:
        text = data if isinstance(data, Problem) else formats.decode(data, file=path)
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
        checked = criteria.check(read.criteria, specs=self.specs)
        self.problems.extend((*read.problems, *checked.problems))
        if read.simulator is not None:
            self._simulators[path] = read.simulator
        if not any(problem.severity is Severity.ERROR for problem in read.problems):
            self.problems.extend(_vacuous(checked.criteria, path, kind=kind))
        return checked.criteria

    def _defaults(self) -> tuple[CriterionUse, ...]:
        uses = (CriterionUse(name=name, threshold=value) for name, value in ADK_DEFAULTS.items() if name in self.specs)
        return criteria.check(uses, specs=self.specs).criteria


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
            message="the config checks nothing: agents-cli metrics have no thresholds, so every answer would pass",
            place=Place(file=path),
            hint=f"Add a test_config.json next to the dataset: {EXAMPLE}. `criteria` are not read here.",
        )
    elif not uses:
        yield Problem(
            severity=Severity.ERROR,
            code="asserts-nothing",
            message="the config checks nothing: it has no criteria, so every answer would pass",
            place=Place(file=path),
            hint=f"Add criteria under `criteria`: {EXAMPLE}.",
        )
    elif all(use.informational for use in uses):
        yield Problem(
            severity=Severity.ERROR,
            code="only-informational",
            message=f"the config checks nothing: {words.listed(f'`{use.name}`' for use in uses)} "
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
