"""What a pull request's own evalgate.yml does not decide: what agents see, whom judges ask with which key, where files
are, and that less is told of it.

The workflow's inputs decide, else the base's evalgate.yml; where they differ from what the change says, a notice tells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from evalgate import config, errors
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.config import Decider, Door
from evalgate.config import settings as config_settings
from evalgate.config.context import Context
from evalgate.config.gate_file import JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.errors import Place, Problem
from evalgate.judges import clients, models
from evalgate.model import CriterionUse, Json, Suite
from evalgate.text import plain, words

SETTINGS = config.names_with(Settings, Decider.DOOR, Door.FILE)
TELLING = {"comment": ("always", "changes", "failures", "off"), "check_run": (True, False)}
"""Of these, those that say whom the verdict is told, most first: a change may have more of it told, not less."""
JUDGE = config.names_with(JudgeRule, Decider.DOOR)
CLIENT_OPTIONS = ("http_options", "httpOptions")
"""Where a model's configuration says how it is reached: another address, further headers."""
WIDTH = 120
"""Of a value that is shown."""
NOT_HEADS, NO_FILE = "setting-of-base", "judge-of-change"
HINT = "Change it in a pull request of its own first."
HINT_INPUT = "Give it as an input of the workflow, or change it in a pull request of its own first."


def applied(rules: Rules, base: Base | None, context: Context) -> Rules:
    """The rules, with these settings as the workflow or the base has them; a notice for each that the change has
    otherwise. Outside a pull request they are the user's own; in one there is a `base`, whatever is wrong with it."""
    if not context.is_pull_request or base is None:
        return rules
    settings = rules.settings
    theirs = base.project.settings
    if theirs is None:
        whose = _Whose(None, f"the base's evalgate.yml is not known ({base.problem}), so it is as if there were none")
    elif theirs.places is None:
        whose = _Whose(None, "the base has no evalgate.yml yet")
    else:
        whose = _Whose(theirs, "")
    told = [*_settings(settings, whose), *_judge(settings, whose)]
    update = {name: _trusted(settings, name, whose.settings) for name in SETTINGS}
    judge = _trusted_judge(settings.gate_file.judge, whose.settings)
    gate_file = settings.gate_file.model_copy(update={"judge": judge})
    settings = settings.model_copy(update={**update, "gate_file": gate_file})
    suites = rules.suites
    if judge != rules.settings.gate_file.judge:  # each criterion knows where its judge is asked
        suites = criteria_judges.settle_suites(suites, criteria_judges.defaults_of(settings))
    pairs = [_with_client_options(suite, base, whose) for suite in suites]
    found = (*told, *(problem for _, problems in pairs for problem in problems))
    return dataclasses.replace(
        rules,
        settings=settings if found else rules.settings,
        suites=tuple(suite for suite, _ in pairs),
        problems=(*rules.problems, *found),
    )


def judge_keys(
    own: Settings, rules: Rules, base: Base | None, context: Context, *, asked_with: Mapping[str, str]
) -> frozenset[str]:
    """The variables with keys of judges: of those that are asked; in a pull request also of those that the base asks,
    and what either evalgate.yml names. A change that asks no judge any more gets its key no more than any other.
    `own`: head's settings. `asked_with`: the environment, and what an agent's .env adds for its judges."""
    environ, sides = asked_with, [(rules.settings, rules.suites)]
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
    return f"`{plain.label(value, WIDTH)}`" if value else "unset"


# --- settings ------------------------------------------------------------------------------------


def _trusted(settings: Settings, name: str, theirs: Settings | None) -> Any:
    """A door's word, else the base's, else the default."""
    if name in settings.given:
        return getattr(settings, name)
    trusted = Settings.model_fields[name].default if theirs is None else getattr(theirs, name)
    order = TELLING.get(name)
    return trusted if order is None else min(trusted, getattr(settings, name), key=order.index)


def _settings(settings: Settings, whose: _Whose) -> Iterator[Problem]:
    for name in SETTINGS:
        ours, theirs = getattr(settings, name), _trusted(settings, name, whose.settings)
        if ours != theirs:
            shown, place = config_settings.input_name(name), settings.place_of(name)
            hint = HINT_INPUT if name in config.names_with(Settings, Door.ACTION) else HINT
            yield whose.notice(shown, theirs=theirs, ours=ours, place=place, hint=hint)


def _trusted_judge(ours: JudgeRule, theirs: Settings | None) -> JudgeRule:
    """The change's judges, asked where the base's are, with the base's key; where the base has none yet, where the
    change says if that is a known provider."""
    if theirs is not None:
        return ours.model_copy(update={name: getattr(theirs.gate_file.judge, name) for name in JUDGE})
    if models.is_of_provider(ours.base_url):
        return ours
    return ours.model_copy(update=dict.fromkeys(JUDGE, ""))


def _judge(settings: Settings, whose: _Whose) -> Iterator[Problem]:
    ours = settings.gate_file.judge
    counts = _trusted_judge(ours, whose.settings)
    for name in JUDGE:
        if getattr(ours, name) != getattr(counts, name):
            values = {"theirs": getattr(counts, name), "ours": getattr(ours, name)}
            place = settings.place_of("judge", name)
            yield whose.notice(f"judge.{name}", **values, place=place, hint=HINT)
    asked = [name for name in ("model", "client", *JUDGE) if getattr(ours, name)]
    if whose.settings is None and counts == ours and asked:
        said = words.listed(f"`{name}: {plain.label(getattr(ours, name), WIDTH)}`" for name in asked)
        message = f"the judge of this change's evalgate.yml is asked ({said}): {whose.why}"
        why = "It counts because it is asked at a known provider's own address."
        place = settings.place_of("judge")
        yield errors.note(NO_FILE, message, place, why)


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


def _client_options(config: Mapping[str, Any] | None) -> Json:
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
