"""The criteria of a suite: named by the user, beside its file, above it, or ADK's defaults."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import PurePosixPath
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from evalgate import errors, formats
from evalgate.config import gate_file, places
from evalgate.config.settings import Settings
from evalgate.criteria import CRITERIA, informational, with_facts
from evalgate.criteria.base import CriterionSpec
from evalgate.errors import Place, Problem, errors_in
from evalgate.formats import CriteriaReading, FileKind
from evalgate.model import (
    Case,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    Scale,
    SimulatorUse,
    Suite,
    shapes,
)
from evalgate.text import plain, words
from evalgate.values import Json, grouped, member, without
from . import walk
from .walk import Tree

FOR_ALL = "include_intermediate_responses_in_final"
"""ADK's option of every criterion (BaseCriterion); two of them use it."""
_BOOLEAN_ADAPTER = TypeAdapter(bool)
LARGEST_CONFIG = 1024 * 1024


def check(
    uses: Iterable[CriterionUse],
    *,
    is_compared: bool = False,
    metrics: Collection[str] = (),
) -> tuple[tuple[CriterionUse, ...], tuple[Problem, ...]]:
    """Check each criterion's name, threshold and options. Returns the criteria in order, and the
    problems.

    Criteria with an error are returned as written. Custom metrics (`code`) have no scale and
    options, so only a threshold that is not a number is reported. `is_compared`: the base decides
    criteria without a threshold. `metrics`: names of custom metrics, for hints."""
    checked_uses: list[CriterionUse] = []
    problems: list[Problem] = []
    for use in uses:
        spec = CRITERIA.get(use.metric or use.name)
        checked_use = use
        if use.code is not None:
            problems.extend(_threshold_problems(use, None))
        elif spec is None:
            deciding = {name for name, criterion in CRITERIA.items() if not criterion.informational}
            names = ", ".join((*sorted(metrics), *sorted(deciding)))
            hint = (
                f"Known criteria: {names}. A metric of your own needs an entry in `custom_metrics`."
            )
            hint = words.did_you_mean(use.name, (*metrics, *CRITERIA), fallback=hint)
            message = f"`{use.name}` is not a known criterion; ADK would skip it silently"
            problems.append(errors.error("unknown-criterion", message, use.place, hint))
        else:
            checked_use, use_problems = _check_use(use, spec)
            problems.extend(use_problems)
        checked_uses.append(checked_use)
    if is_compared:
        problems = [problem for problem in problems if problem.code != "no-threshold"]
    return tuple(checked_uses), tuple(problems)


def informational_uses(*, beside: Iterable[CriterionUse] = ()) -> tuple[CriterionUse, ...]:
    """The core's informational criteria that are not in `beside`: every suite gets them."""
    names = {use.name for use in beside}
    return tuple(
        with_facts(
            CriterionUse(
                name=spec.name,
                threshold=None,
                informational=True,
                lower_is_better=spec.lower_is_better,
            ),
            spec,
        )
        for spec in informational.SPECS
        if spec.name not in names
    )


def _check_use(use: CriterionUse, spec: CriterionSpec) -> tuple[CriterionUse, list[Problem]]:
    """The criterion with its effective options, and problems: an option is an error if ADK rejects
    it, a warning if ADK ignores it."""
    fields = spec.options.model_fields.items()
    option_names = {name for field, info in fields for name in (field, info.alias) if name}
    unknown_names = [
        name for name in use.options if name not in option_names and not spec.is_beyond_adk
    ]
    unknown_options = (_unknown_option(use, spec, name) for name in unknown_names)
    problems = list(filter(None, unknown_options))
    options = use.options
    try:
        valid_options = spec.options.model_validate(without(use.options, unknown_names))
        options = valid_options.model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        problems += [
            _option_problem(use, spec, finding) for finding in error.errors(include_url=False)
        ]
    if spec.informational and use.threshold is not None:
        message = f"`{use.name}` is informational: its threshold of {use.threshold:g} is ignored"
        hint = "It is always in the reports; remove it from the criteria."
        problems.append(errors.warning("threshold-ignored", message, use.place, hint))
    checked_use = with_facts(
        use,
        spec,
        threshold=None if spec.informational else use.threshold,
        options=options,
        informational=use.informational or spec.informational,
        lower_is_better=use.lower_is_better or spec.lower_is_better,
    )
    if not checked_use.informational:
        problems.extend(_threshold_problems(checked_use, spec))
    is_reversed = use.lower_is_better and not (spec.lower_is_better or spec.either_way)
    if is_reversed and spec.scale.highest is not None:
        message = f"`{use.name}` is best at {spec.scale.highest:g}; with `lower_is_better` the worst answers pass"
        hint = "Remove `lower_is_better`: it is for cost-like custom metrics. ADK ignores it."
        problems.append(errors.warning("scale-turned-round", message, use.place, hint))
    return checked_use, problems


def _threshold_problems(use: CriterionUse, spec: CriterionSpec | None) -> Iterator[Problem]:
    """`spec` None: a custom metric, which has the scale of its `metric_info`, if any."""
    threshold = use.threshold
    if threshold is None:
        if not use.informational:
            message = f"`{use.name}` has no threshold"
            hint = f'Write `"{use.name}": 0.8`, or an object with a `threshold`.'
            yield errors.error("no-threshold", message, use.place, hint)
        return
    if math.isnan(threshold):
        message = f"`{use.name}`: the threshold is NaN, not a number"
        yield errors.error("threshold-out-of-range", message, use.place)
        return
    scale = use.scale if spec is None else spec.scale
    lowest = -math.inf if scale.lowest is None else scale.lowest
    highest = math.inf if scale.highest is None else scale.highest
    passing_threshold = highest if use.lower_is_better else lowest
    if threshold == passing_threshold and math.isfinite(passing_threshold):
        message = f"`{use.name}`: every score passes a threshold of {threshold:g}"
        hint = f"The criterion scores {_scale_text(scale)}; a threshold of {threshold:g} always passes."
        yield errors.warning("threshold-always-passes", message, use.place, hint)
    elif not lowest <= threshold <= highest or math.isinf(threshold):
        is_unreachable = threshold < lowest if use.lower_is_better else threshold > highest
        effect = "no score can reach it" if is_unreachable else "every score passes it"
        message = f"`{use.name}`: the threshold is {threshold:g}, the criterion scores {_scale_text(scale)}: {effect}"
        # the threshold may be meant on a scale of 10 or 100
        is_share = highest == 1 and 2 <= threshold <= 100
        hint = f"Did you mean {threshold / (10 if threshold <= 10 else 100):g}?" if is_share else ""
        yield errors.error("threshold-out-of-range", message, use.place, hint)


def _scale_text(scale: Scale) -> str:
    match (scale.lowest, scale.highest):
        case (None, None):
            return "without bounds"
        case (lowest, None):
            return f"{lowest:g} or more"
        case (None, highest):
            return f"{highest:g} or less"
        case (lowest, highest):
            return f"{lowest:g} to {highest:g}"


def _unknown_option(use: CriterionUse, spec: CriterionSpec, name: str) -> Problem | None:
    """The problem with an option that the criterion does not have: ADK accepts and ignores it.

    One option is ADK's for every criterion, even without effect."""
    if shapes.field(name) == FOR_ALL:
        try:
            _BOOLEAN_ADAPTER.validate_python(use.options[name])
        except ValidationError as error:
            (finding,) = error.errors(include_url=False)
            return _option_problem(use, spec, {**finding, "loc": (name,)})
        return None
    message = f"`{use.name}` has no option `{name}` (ignored, also by ADK)"
    return errors.warning(
        "unknown-option",
        message,
        _place_of(use, name),
        _option_hint(name, spec.options.model_fields),
    )


def _option_hint(name: str, option_names: Collection[str]) -> str:
    """The hint for an option that is not among the `option_names`."""
    otherwise = (
        f"Known options: {', '.join(option_names)}."
        if option_names
        else "Its only option is `threshold`."
    )
    return words.did_you_mean(name, option_names, fallback=otherwise)


def _place_of(use: CriterionUse, option: str) -> Place | None:
    at = use.place
    if at is None:
        return None
    path = f"{at.json_path}.{option}".rstrip(".")
    return Place(at.file, at.line, column=at.column, json_path=path)


def _option_problem(use: CriterionUse, spec: CriterionSpec, error: ErrorDetails) -> Problem:
    context = error.get("ctx", {}) if error["type"] == gate_file.REFUSED else {}
    path = (*error["loc"], *context.get("at", ()))
    option = _option(path)
    hint = ""
    match error["type"]:
        case "extra_forbidden":
            message = f"`{use.name}` has no option `{option}`"
            hint = _option_hint(option, spec.options.model_fields) if len(path) == 1 else ""
        case "missing":
            message = f"`{use.name}`: the option `{option}` is missing"
        case gate_file.REFUSED:
            message = f"`{use.name}`: `{_option(error['loc'])}`: {words.fault(error)}"
        case _:
            wording = "an object" if "instance of" in error["msg"] else error["msg"]
            expected = wording.removeprefix("Value error, ").removeprefix("Input should be ")
            expected = expected.removesuffix(", unable to interpret input")
            message = f"`{use.name}`: `{option}` is {plain.short_json(error['input'])}, expected {expected}"
    return errors.error("bad-option", message, _place_of(use, option), hint)


def _option(path: tuple[int | str, ...]) -> str:
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in path
    ).removeprefix(".")


ADK_DEFAULTS: Mapping[str, float] = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
"""ADK's criteria if no config is found (google-adk 2.13, eval_config)."""

SCENARIO_DEFAULT = CriterionUse(
    name="multi_turn_task_success_v1",
    threshold=0.8,
    options={"judge": "llm"},
    where_applicable=True,
)
"""The criterion of scenarios if no config is found. ADK's defaults compare turns, which scenarios
lack."""

ADK_CONFIG = "test_config.json"
YAML_CONFIGS = ("eval_config.yaml", "eval_config.yml")
EXAMPLE = '{"criteria": {"response_match_score": 0.8}}'
_YAML = (".yaml", ".yml")


Found: TypeAlias = tuple[tuple[CriterionUse, ...], SimulatorUse | None, Place | None]
"""The criteria of one place, and the simulated user that it describes, with its own place."""


class CriteriaFinder:
    """Finds the criteria of each suite. Reads each config once, and reports its problems once.
    `datasets`: the keys of suites that are agents-cli's."""

    def __init__(self, tree: Tree, settings: Settings, datasets: Collection[str]) -> None:
        self.tree = tree
        self._datasets = datasets
        self.problems: list[Problem] = []
        self._settings = settings
        self._found: dict[str, Found] = {}
        self._holds_criteria = cache(self._find_criteria)
        self._is_foreign = cache(self._report_foreign)
        self.other_configs: dict[str, None] = {}  # with names that ADK itself does not read
        paths = (*tree.config_files, *tree.other_json)
        self._by_folder = grouped((PurePosixPath(path).parent, path) for path in paths)

    def criteria_of(
        self, key: str, cases: Sequence[Case]
    ) -> tuple[tuple[CriterionUse, ...], CriteriaSource, SimulatorUse, Place | None]:
        """The criteria of a suite, their source, and the simulated user of that source, with its
        place. In order of priority: `criteria`, the gate file, a file beside, a file above, the
        defaults. Informational criteria come last."""
        (uses, simulator, place), origin, file = self._first(key, cases)
        all_uses = (*uses, *informational_uses(beside=uses))
        source = CriteriaSource(origin=origin, file=file)
        return all_uses, source, simulator or SimulatorUse(), place

    def _first(self, key: str, cases: Sequence[Case]) -> tuple[Found, ConfigOrigin, str]:
        if self._settings.criteria:
            root = self.tree.root
            criteria_path = root / self._settings.criteria
            is_inside = criteria_path.is_relative_to(root)
            place = criteria_path.relative_to(root) if is_inside else criteria_path
            file = place.as_posix()
            named_by = "It is set as `criteria`; ADK would silently use its defaults."
            found = self._of_file(
                file,
                named_by=named_by,
                read=lambda label: walk.read_user_file(criteria_path, label=label),
            )
            return found, ConfigOrigin.EXPLICIT, file
        rules = [
            (number, suite_rule)
            for number, suite_rule in enumerate(self._settings.gate_file.suites)
            if (suite_rule.criteria is not None or suite_rule.config is not None)
            and places.matches(key, suite_rule.match)
        ]
        index, rule = rules[-1] if rules else (-1, None)
        gate_file = self._settings.locate().file if rules else ""
        if rule is not None and rule.criteria is not None:
            config_path = self._nearest(key) if key in self._datasets else None
            found = self._of_rule(rule.criteria, index, config_path or "")
            return found, ConfigOrigin.EMBEDDED, gate_file
        if rule is not None and rule.config is not None:
            named_by = f"{gate_file} names it as `config` of suites[{index}]."
            found = self._of_file(PurePosixPath(rule.config).as_posix(), named_by=named_by)
            return found, ConfigOrigin.EXPLICIT, rule.config
        config_path = self._nearest(key)
        if config_path is not None:
            is_beside = PurePosixPath(config_path).parent == PurePosixPath(key).parent
            origin = ConfigOrigin.BESIDE if is_beside else ConfigOrigin.ABOVE
            return self._of_file(config_path), origin, config_path
        return (self._defaults(cases), None, None), ConfigOrigin.DEFAULTS, ""

    def _defaults(self, cases: Sequence[Case]) -> tuple[CriterionUse, ...]:
        """ADK's defaults, each for the cases to which it applies; for scenarios another criterion.
        In ADK each default decides all cases."""
        is_fitting = self._settings.deviations.fitting_defaults
        is_led = is_fitting and any(case.scenario is not None for case in cases)
        defaults: list[CriterionUse] = []
        if not is_led or any(case.scenario is None for case in cases):
            defaults += (
                CriterionUse(name=name, threshold=value, where_applicable=is_fitting)
                for name, value in ADK_DEFAULTS.items()
            )
        if is_led:
            defaults.append(SCENARIO_DEFAULT)
        uses, _ = check(use for use in defaults if use.name in CRITERIA)
        return uses

    def _nearest(self, key: str) -> str | None:
        """The config of the nearest folder that has one: test_config.json, agents-cli's config for
        a dataset, eval_config.json, then the only other file with ADK's criteria."""
        for folder in PurePosixPath(key).parents:
            paths = {
                PurePosixPath(path).name: path for path in sorted(self._by_folder.get(folder, ()))
            }
            if ADK_CONFIG in paths:
                return paths[ADK_CONFIG]
            yaml_names = YAML_CONFIGS if key in self._datasets else ()
            configs = (paths[name] for name in yaml_names if name in paths)
            if config_path := next((path for path in configs if not self._is_foreign(path)), None):
                return config_path
            alike = [path for path in paths.values() if path != key and self._holds_criteria(path)]
            usual_path = paths.get("eval_config.json", "")
            chosen = [usual_path] if usual_path in alike else alike
            if len(chosen) == 1:
                self.other_configs[chosen[0]] = None
                return chosen[0]
            if alike:
                message = f"{words.listed(alike)} each hold criteria and none is called test_config.json, so none is used"
                hint = "Rename one to test_config.json, or name it as `config` of a rule under `suites` in evalgate.yml."
                self.problems.append(errors.warning("near-name", message, Place(alike[0]), hint))
        return None

    def _find_criteria(self, path: str) -> bool:
        """True if a file has ADK's shape, whatever its name: `criteria` by name, one of them known
        or with code."""
        data = self.tree.read(path, largest=LARGEST_CONFIG) if path.endswith(".json") else b""
        if not isinstance(data, bytes) or b'"criteria"' not in data:
            return False
        raw = None
        with suppress(ValueError, RecursionError):
            raw = json.loads(data.decode("utf-8-sig"))
        uses = member(raw, "criteria")
        # an eval_config.json that cannot be read is reported by its reader
        if PurePosixPath(path).name in walk.CONFIG_NAMES:
            return uses is not None or raw is None
        names = {*CRITERIA, *(member(raw, "custom_metrics") or ())}
        return isinstance(uses, dict) and not names.isdisjoint(uses)

    def _report_foreign(self, path: str) -> bool:
        """True if the file is not a config of agents-cli: others use the name eval_config.yaml too.
        Unreadable files are reported by their reader."""
        text = plain.decode(self.tree.read(path), file=path)
        if not isinstance(text, str) or formats.kind_of(text, file=path) is not FileKind.OTHER:
            return False
        message = f"`{path}` is ignored: it has neither `metrics_to_run` nor `custom_metrics`, so it is not an "
        message += "agents-cli config, and criteria are not read from YAML"
        hint = f"If it holds criteria, write them into a test_config.json beside the dataset: {EXAMPLE}."
        self.problems.append(errors.warning("foreign-config", message, Place(path), hint))
        return True

    def _of_file(
        self, path: str, *, named_by: str = "", read: Callable[[str], bytes | Problem] | None = None
    ) -> Found:
        if path not in self._found:
            text = plain.decode((read or self.tree.read)(path), file=path)
            if isinstance(text, Problem):
                self._found[path] = ((), None, None)
                self.problems.append(
                    errors.error(text.code, text.message, text.place, text.hint or named_by)
                )
            else:
                if formats.kind_of(text, file=path) is FileKind.DATASET_CONFIG:
                    dataset = formats.FORMATS[formats.Dialect.AGENTS_CLI]
                    reading = dataset.read_criteria(text, file=path, read=self.tree.read)
                else:
                    reading = formats.parse_criteria(text, file=path)
                self._found[path] = self._check(reading, Place(path))
        return self._found[path]

    def _of_rule(self, raw: Json, index: int, config: str) -> Found:
        """Criteria in the gate file: the same reader, with places in the gate file. They may name
        metrics of the dataset's `config`, and set thresholds for them."""
        gate_file = self._settings.locate().file
        name = f"{gate_file}#{index}#{config}"
        if name not in self._found:
            text = json.dumps({"criteria": raw}, default=str)
            locate = partial(self._settings.locate, "suites", index)
            reading = formats.parse_criteria(
                text, file=gate_file, locate=lambda path: locate(*path)
            )
            metrics_of_config = self._of_file(config)[0] if config.endswith(_YAML) else ()
            metrics = {use.name: use for use in metrics_of_config}
            uses = (
                replace(metrics[use.name], threshold=use.threshold, place=use.place)
                if use.name in metrics
                else use
                for use in reading.criteria
            )
            rule_reading = CriteriaReading(
                criteria=tuple(uses), problems=reading.problems, metrics=frozenset(metrics)
            )
            self._found[name] = self._check(rule_reading, locate())
        return self._found[name]

    def _check(self, reading: CriteriaReading, place: Place) -> Found:
        """The checked criteria of a reading, and its simulated user with its place."""
        uses, problems = check(
            reading.criteria, is_compared=reading.is_compared, metrics=reading.metrics
        )
        self.problems += [*reading.problems, *problems]
        found = (uses, reading.simulator, reading.simulator_place)
        if errors_in(reading.problems):
            return found
        if not uses:
            message = "the config has no criteria, so every answer would pass"
            hint = f"Add criteria under `criteria`: {EXAMPLE}."
            self.problems.append(errors.error("asserts-nothing", message, place, hint))
        elif all(use.informational for use in uses):
            names = words.listed(f"`{use.name}`" for use in uses)
            verb = "is" if len(uses) == 1 else "are"
            message = f"every answer would pass: {names} {verb} informational"
            hint = "Add a criterion with a threshold."
            self.problems.append(errors.error("only-informational", message, place, hint))
        return found


def defaults_problems(suites: Sequence[Suite], tree: Tree) -> Iterator[Problem]:
    """One warning about all suites with the default criteria, and files near them that may have
    been meant."""
    keys = [suite.key for suite in suites]
    parents = {folder for key in keys for folder in PurePosixPath(key).parents}
    yaml_configs = sorted(
        path
        for path in tree.config_files
        if path.endswith(_YAML) and PurePosixPath(path).parent in parents
    )
    hint = "Add a test_config.json next to or above the file."
    if yaml_configs:
        hint = f"{words.listed(yaml_configs)} may hold criteria: write them into a test_config.json, {EXAMPLE}."
    deciding_uses = [use for suite in suites for use in suite.criteria if use.threshold is not None]
    defaults = " and ".join(dict.fromkeys(f"{use.name} {use.threshold:g}" for use in deciding_uses))
    owner = "ADK's" if {use.name for use in deciding_uses} <= ADK_DEFAULTS.keys() else "the"
    files = (
        f" for {words.counted(len(keys), 'file')} ({words.listed(keys)})" if len(keys) > 1 else ""
    )
    message = f"no test_config.json next to or above the file, so {owner} defaults apply{files}: {defaults}"
    yield errors.warning("default-criteria", message, Place(keys[0]), hint)
