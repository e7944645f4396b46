"""Criteria as configured, checked against the table of criteria that this version grades."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from evalgate.criteria.base import CriterionSpec
from evalgate.errors import Place, Problem, Severity
from evalgate.model import CriterionUse
from evalgate.text import words
from evalgate.wire import generation_config, spelling

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
            checked.append(use)
        elif spec is None:
            problems.append(_name_problem(use, specs=specs))
            checked.append(use)
        else:
            known, found = _check_known(use, spec)
            checked.append(known)
            problems.extend(found)
    return CheckedCriteria(criteria=tuple(checked), problems=tuple(problems))


def informational_uses(specs: Specs, *, beside: Iterable[CriterionUse] = ()) -> tuple[CriterionUse, ...]:
    """The informational criteria of the table that are not among `beside`: every suite is told them."""
    named = {use.name for use in beside}
    return tuple(
        CriterionUse(name=spec.name, threshold=None, informational=True, lower_is_better=spec.lower_is_better)
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
    if use.lower_is_better and not spec.lower_is_better and spec.highest is not None:
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
    lowest = -math.inf if spec.lowest is None else spec.lowest
    highest = math.inf if spec.highest is None else spec.highest
    always = highest if use.lower_is_better else lowest
    if threshold == always and math.isfinite(always):
        problems.append(
            _warning(
                "threshold-always-passes",
                f"`{use.name}`: every score passes a threshold of {threshold:g}",
                use.place,
                f"The criterion scores {_scale(spec)}; a threshold of {threshold:g} checks nothing.",
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
    match (spec.lowest, spec.highest):
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
        f"`{use.name}` is best at {spec.highest:g}; with `lower_is_better` the worst answers pass",
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
    if spelling.field(name) == FOR_ALL:
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
    inner = error.get("ctx", {}).get("at", ()) if error["type"] == generation_config.REFUSED else ()
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
        case generation_config.REFUSED:
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
