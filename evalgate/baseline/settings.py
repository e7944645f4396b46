"""The settings that count: a door's, the base's or the change's, as their rows say.

A notice tells where the change's evalgate.yml says something that does not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from evalgate import config, errors
from evalgate.baseline.base import Base
from evalgate.config import Decider, Door, settings as config_settings
from evalgate.config.context import Context
from evalgate.config.gate_file import JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.errors import Place, Problem
from evalgate.judges import clients, models
from evalgate.model import CriterionUse, Suite
from evalgate.text import plain, words
from evalgate.values import Json

OF_DOORS = config.names_with(Settings, Decider.DOOR, Door.FILE)
"""What a change does not decide: what agents see, where files are, who is told."""
OF_BASE = tuple(name for name in config.names_with(Settings, Decider.BASE) if name not in ("baseline", "policy"))
"""What a change decides from the moment on that it is merged; of the other two both sides' words count."""
TELLING = {"comment": ("always", "changes", "failures", "off"), "check_run": (True, False)}
"""Of these, those that say whom the verdict is told, most first: a change may have more of it told, not less."""
OF_JUDGES = config.names_with(JudgeRule, Decider.DOOR)
CLIENT_OPTIONS = ("http_options", "httpOptions")
"""Where a model's configuration says how it is reached: another address, further headers."""
WIDTH = 120
"""Of a value that is shown."""
NOT_HEADS, NO_FILE = "setting-of-base", "judge-of-change"
HINT = "Change it in a pull request of its own first."
HINT_INPUT = "Give it as an input of the workflow, or change it in a pull request of its own first."


def in_force(settings: Settings, base: Base | None, context: Context | None) -> tuple[Settings, tuple[Problem, ...]]:
    """Head's settings with those of the doors and of the base in them, and notices of what the change has otherwise."""
    if base is None or context is None:
        return settings, ()
    whose = _Whose.of(base)
    names: tuple[str, ...] = ()
    if context.is_pull_request:  # elsewhere they are the user's own; in one there is a base, whatever is wrong with it
        names += OF_DOORS
    if base.project.settings is not None and base.project.rules is not None:
        names += OF_BASE
    counting = {name: _trusted(settings, name, whose.settings) for name in names}
    notices = [*_settings(settings, counting, whose)]
    judge = settings.gate_file.judge
    if names:
        judge, of_judge = _judge(settings, whose, is_guarded=context.is_pull_request)
        notices += of_judge
    if not notices:
        return settings, ()
    gate_file = settings.gate_file.model_copy(update={"judge": judge})
    return settings.model_copy(update={**counting, "gate_file": gate_file}), tuple(notices)


def reached(
    suites: tuple[Suite, ...], settings: Settings, base: Base | None, context: Context | None, *, was: JudgeRule
) -> tuple[tuple[Suite, ...], tuple[Problem, ...]]:
    """The suites, with their judges and simulated users reached as a door or the base says; notices of what the change
    has otherwise. `was`: the judges that the suites' criteria know."""
    if settings.gate_file.judge != was:  # each criterion knows where its judge is asked
        suites = criteria_judges.settle_suites(suites, criteria_judges.defaults_of(settings))
    if base is None or context is None or not context.is_pull_request:
        return suites, ()
    pairs = [_with_client_options(suite, base, _Whose.of(base)) for suite in suites]
    return tuple(suite for suite, _ in pairs), tuple(problem for _, problems in pairs for problem in problems)


def judge_keys(
    own: Settings,
    settings: Settings,
    suites: Sequence[Suite],
    base: Base | None,
    context: Context,
    *,
    asked_with: Mapping[str, str],
) -> frozenset[str]:
    """The variables with keys of judges: of those that are asked; in a pull request also of those that the base asks,
    and what either evalgate.yml names. A change that asks no judge any more gets its key no more than any other.
    `own`: head's settings; `settings`: those in force. `asked_with`: the environment, and what an agent's .env adds for
    its judges."""
    environ, sides = asked_with, [(settings, suites)]
    named: set[str] = set()
    if context.is_pull_request and base is not None:
        theirs, known = base.project.settings or own, base.project.rules
        named = {each.gate_file.judge.api_key_env for each in (own, theirs)}
        sides += [] if known is None else [(theirs, known.suites)]
    return clients.variables_with((environ.get(name, "") for name in named), environ, named=named).union(
        *(criteria_judges.key_names(settings, suites, environ) for settings, suites in sides)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Whose:
    """The settings of the base's evalgate.yml; None where there is none that counts, and why."""

    settings: Settings | None
    why: str

    @classmethod
    def of(cls, base: Base) -> _Whose:
        theirs = base.project.settings
        if theirs is None:
            return cls(None, f"the base's evalgate.yml is not known ({base.problem}), so it is as if there were none")
        return cls(theirs, "") if theirs.places is not None else cls(None, "the base has no evalgate.yml yet")

    def notice(self, name: str, *, theirs: Any, ours: Any, place: Place | None, hint: str) -> Problem:
        """What counts, and what does not."""
        if self.settings is not None:
            message = f"`{name}`: the base's evalgate.yml counts ({_shown(theirs)}), not this change's ({_shown(ours)})"
        else:
            instead = f"; what counts is {_shown(theirs)}" if theirs else ""
            message = f"`{name}` of this change's evalgate.yml ({_shown(ours)}) does not count: {self.why}{instead}"
        return errors.note(NOT_HEADS, message, place, hint)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{plain.label(', '.join(value), WIDTH)}`" if value else "nothing"
    if isinstance(value, BaseModel):
        value = ", ".join(f"{name}={limit:g}" for name, limit in value if limit is not None)
    return f"`{plain.label(value, WIDTH)}`" if value else "unset"


# --- settings ------------------------------------------------------------------------------------


def _trusted(settings: Settings, name: str, theirs: Settings | None) -> Any:
    """A door's word, else the base's, else the default."""
    if name in settings.given:
        return getattr(settings, name)
    trusted = Settings.model_fields[name].default if theirs is None else getattr(theirs, name)
    if _has_no_limit(trusted):  # a bound that the base has none of
        return getattr(settings, name)
    order = TELLING.get(name)
    return trusted if order is None else min(trusted, getattr(settings, name), key=order.index)


def _has_no_limit(value: object) -> bool:
    return isinstance(value, BaseModel) and not any(limit for _, limit in value)


def _settings(settings: Settings, counting: Json, whose: _Whose) -> Iterator[Problem]:
    for name, theirs in counting.items():
        ours = getattr(settings, name)
        if ours != theirs:
            shown, place = config_settings.input_name(name), settings.place_of(name)
            hint = HINT_INPUT if name in config.names_with(Settings, Door.ACTION) else HINT
            yield whose.notice(shown, theirs=theirs, ours=ours, place=place, hint=hint)


def _judge(settings: Settings, whose: _Whose, *, is_guarded: bool) -> tuple[JudgeRule, list[Problem]]:
    """The change's judges with the base's budget; where they are guarded, asked where the base's are, with the base's
    key, and where the base has none yet, where the change says if that is a known provider."""
    ours = settings.gate_file.judge
    theirs = JudgeRule() if whose.settings is None else whose.settings.gate_file.judge
    counting: dict[str, Any] = {} if _has_no_limit(theirs.budget) else {"budget": theirs.budget}
    if is_guarded and not (whose.settings is None and models.is_of_provider(ours.base_url)):
        counting |= {name: getattr(theirs, name) for name in OF_JUDGES}
    notices = [
        whose.notice(f"judge.{name}", theirs=value, ours=getattr(ours, name), place=place, hint=HINT)
        for name, value in counting.items()
        for place in (settings.place_of("judge", name),)
        if getattr(ours, name) != value
    ]
    asked = [name for name in ("model", "client", *OF_JUDGES) if getattr(ours, name)]
    if is_guarded and whose.settings is None and not notices and asked:
        said = words.listed(f"`{name}: {plain.label(getattr(ours, name), WIDTH)}`" for name in asked)
        message = f"the judge of this change's evalgate.yml is asked ({said}): {whose.why}"
        why = "It counts because it is asked at a known provider's own address."
        notices.append(errors.note(NO_FILE, message, settings.place_of("judge"), why))
    return ours.model_copy(update=counting), notices


# --- how models are reached ----------------------------------------------------------------------


def _with_client_options(suite: Suite, base: Base, whose: _Whose) -> tuple[Suite, list[Problem]]:
    """The suite with the base's client options for its judges and its simulated users."""
    rules, key = base.project.rules, base.project.renamed.get(suite.key, suite.key)
    before = None if rules is None else next((each for each in rules.suites if each.key == key), None)
    uses = {} if before is None else {use.name: use for use in before.criteria}
    criteria, problems = [], []
    for use in suite.criteria:
        then = _client_options(_config_of(uses[use.name])) if use.name in uses else _by_rule(use, whose.settings)
        made = _with_config(use, _replaced(_config_of(use), then))
        if made != use:
            problems.append(_other_client(f"`{use.name}` in {suite.key}", then, use.place or Place(file=suite.key)))
        criteria.append(made)
    simulator, theirs = suite.simulator, whose.settings
    if simulator.config is not None:
        rule = None if theirs is None else theirs.gate_file.simulator.config
        then = _client_options(before.simulator.config if before is not None and before.simulator.config else rule)
        config = _replaced(simulator.config, then)
        if config != simulator.config:
            place = simulator.place or Place(file=suite.key)
            problems.append(_other_client(f"the simulated users of {suite.key}", then, place))
            simulator = dataclasses.replace(simulator, config=config)
    return dataclasses.replace(suite, criteria=tuple(criteria), simulator=simulator), problems


def _by_rule(use: CriterionUse, theirs: Settings | None) -> Json:
    """What the base's evalgate.yml says for a criterion that the base does not have."""
    if theirs is None:
        return {}
    judge = theirs.gate_file.judge
    own = judge.criteria.get(use.name)
    return _client_options({**(judge.config or {}), **((own.config if own else None) or {})})


def _config_of(use: CriterionUse) -> Json:
    options = use.options.get("judge_model_options")
    config = options.get("judge_model_config") if isinstance(options, dict) else None
    return config if isinstance(config, dict) else {}


def _with_config(use: CriterionUse, config: Json) -> CriterionUse:
    if config == _config_of(use):
        return use
    judge = {**use.options["judge_model_options"], "judge_model_config": config}
    return dataclasses.replace(use, options={**use.options, "judge_model_options": judge})


def _client_options(config: Json | None) -> Json:
    return {name: value for name, value in (config or {}).items() if name in CLIENT_OPTIONS}


def _replaced(config: Json, then: Json) -> Json:
    """The configuration with other client options; as it is where they are the same."""
    if _client_options(config) == then:
        return config
    return {**{name: value for name, value in config.items() if name not in CLIENT_OPTIONS}, **then}


def _other_client(what: str, then: Json, place: Place) -> Problem:
    counts = "the base's count" if then else "there are none on the base, so they do not count"
    message = f"the client options (`http_options`) of {what}: {counts}, not this change's"
    return errors.note(NOT_HEADS, message, place, HINT)
