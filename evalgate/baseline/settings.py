"""The settings in force: the door's, the base's or the change's, as their rows define.

A notice reports each setting in the change's evalgate.yml that is not in force."""

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
from evalgate.values import Json, member, without

OF_DOORS = config.names_with(Settings, Decider.DOOR, Door.FILE)
"""Settings that a change does not decide: the environment of agents, paths, recipients of
reports."""
OF_BASE = tuple(
    name for name in config.names_with(Settings, Decider.BASE) if name not in ("baseline", "policy")
)
"""Settings that a change decides only after it is merged. For the two excluded ones, the values of
both sides count."""
EXTENTS = {"comment": ("always", "changes", "failures", "off"), "check_run": (True, False)}
"""Settings for reports of the verdict, with their values from the most to the least: a change may
ask for more, not for less."""
JUDGE_SETTINGS = config.names_with(JudgeRule, Decider.DOOR)
CLIENT_OPTIONS = ("http_options", "httpOptions")
"""Options of a model about its connection: another address, further headers."""
WIDTH = 120
"""The most characters of a shown value."""
SETTING_OF_BASE = "setting-of-base"
JUDGE_OF_CHANGE = "judge-of-change"
HINT = "Change it in a pull request of its own first."
HINT_INPUT = "Set it as an input of the workflow, or change it in a pull request of its own first."


def in_force(
    settings: Settings, base: Base | None, context: Context | None
) -> tuple[Settings, tuple[Problem, ...]]:
    """Head's settings with those of the door and of the base, and notices about the change's
    settings that are not in force."""
    if base is None or context is None:
        return settings, ()
    base_side = _BaseSettings.of(base)
    names: tuple[str, ...] = ()
    # outside pull requests these settings are the user's own; in a pull request there is a base,
    # even with errors
    if context.is_pull_request:
        names += OF_DOORS
    if base.project.settings is not None and base.project.rules is not None:
        names += OF_BASE
    trusted_settings = {name: _trusted(settings, name, base_side.settings) for name in names}
    notices = [*_notices(settings, trusted_settings, base_side)]
    judge = settings.gate_file.judge
    if names:
        judge, judge_notices = _judge(settings, base_side, is_guarded=context.is_pull_request)
        notices += judge_notices
    if not notices:
        return settings, ()
    gate_file = settings.gate_file.model_copy(update={"judge": judge})
    return settings.model_copy(update={**trusted_settings, "gate_file": gate_file}), tuple(notices)


def suites_in_force(
    suites: tuple[Suite, ...],
    settings: Settings,
    base: Base | None,
    context: Context | None,
    *,
    initial_judge: JudgeRule,
) -> tuple[tuple[Suite, ...], tuple[Problem, ...]]:
    """The suites, whose judges and simulated users have the addresses and client options that a
    door or the base sets; notices about the change's options that are not in force.
    `initial_judge`: the judges in the suites' criteria."""
    if settings.gate_file.judge != initial_judge:  # each criterion has the address of its judge
        suites = criteria_judges.settle_suites(suites, criteria_judges.defaults_of(settings))
    if base is None or context is None or not context.is_pull_request:
        return suites, ()
    pairs = [_with_client_options(suite, base, _BaseSettings.of(base)) for suite in suites]
    return tuple(suite for suite, _ in pairs), tuple(
        problem for _, problems in pairs for problem in problems
    )


def judge_keys(
    head_settings: Settings,
    settings: Settings,
    suites: Sequence[Suite],
    base: Base | None,
    context: Context,
    *,
    environ: Mapping[str, str],
) -> frozenset[str]:
    """The variables with keys of judges: of the judges in use; in a pull request also of the base's
    judges, and variables that either evalgate.yml names. So a change that removes a judge does not
    get its key for the agent. `settings`: those in force. `environ`: the environment of judges,
    including an agent's .env."""
    sides = [(settings, suites)]
    names: set[str] = set()
    if context.is_pull_request and base is not None:
        base_settings = base.project.settings or head_settings
        base_rules = base.project.rules
        names = {
            side_settings.gate_file.judge.api_key_env
            for side_settings in (head_settings, base_settings)
        }
        sides += [] if base_rules is None else [(base_settings, base_rules.suites)]
    return clients.variables_with(
        (environ.get(name, "") for name in names), environ, secret_names=names
    ).union(*(criteria_judges.key_names(settings, suites, environ) for settings, suites in sides))


@dataclasses.dataclass(frozen=True, slots=True)
class _BaseSettings:
    """The settings of the base's evalgate.yml; None with a reason if they are not in force."""

    settings: Settings | None
    reason: str

    @classmethod
    def of(cls, base: Base) -> _BaseSettings:
        base_settings = base.project.settings
        if base_settings is None:
            return cls(
                None,
                f"the base's evalgate.yml is not known ({base.problem}), so it is treated as missing",
            )
        return (
            cls(base_settings, "")
            if base_settings.places is not None
            else cls(None, "the base has no evalgate.yml yet")
        )

    def notice(
        self, name: str, *, base_setting: Any, head_setting: Any, place: Place | None, hint: str
    ) -> Problem:
        """The value that is in force, and the change's value."""
        if self.settings is not None:
            message = (
                f"`{name}`: the base's evalgate.yml counts ({_quoted(base_setting)}), "
                f"not this change's ({_quoted(head_setting)})"
            )
        else:
            suffix = f"; the value in force is {_quoted(base_setting)}" if base_setting else ""
            message = f"`{name}` of this change's evalgate.yml ({_quoted(head_setting)}) does not count: {self.reason}{suffix}"
        return errors.note(SETTING_OF_BASE, message, place, hint)


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{plain.label(', '.join(value), WIDTH)}`" if value else "nothing"
    if isinstance(value, BaseModel):
        value = ", ".join(f"{name}={limit:g}" for name, limit in value if limit is not None)
    return f"`{plain.label(value, WIDTH)}`" if value else "unset"


# --- settings ------------------------------------------------------------------------------------


def _trusted(settings: Settings, name: str, base_settings: Settings | None) -> Any:
    """The door's value, else the base's, else the default."""
    if name in settings.explicit_options:
        return getattr(settings, name)
    trusted_setting = (
        Settings.model_fields[name].default
        if base_settings is None
        else getattr(base_settings, name)
    )
    if _has_no_limit(trusted_setting):  # the base has no limit
        return getattr(settings, name)
    order = EXTENTS.get(name)
    return (
        trusted_setting
        if order is None
        else min(trusted_setting, getattr(settings, name), key=order.index)
    )


def _has_no_limit(value: object) -> bool:
    return isinstance(value, BaseModel) and not any(limit for _, limit in value)


def _notices(
    settings: Settings, trusted_settings: Json, base_side: _BaseSettings
) -> Iterator[Problem]:
    """A notice about each of head's settings that differs from the one in force."""
    for name, base_setting in trusted_settings.items():
        head_setting = getattr(settings, name)
        if head_setting != base_setting:
            label = config_settings.input_name(name)
            place = settings.place_of(name)
            hint = HINT_INPUT if name in config.names_with(Settings, Door.ACTION) else HINT
            yield base_side.notice(
                label, base_setting=base_setting, head_setting=head_setting, place=place, hint=hint
            )


def _judge(
    settings: Settings, base_side: _BaseSettings, *, is_guarded: bool
) -> tuple[JudgeRule, list[Problem]]:
    """The change's judges with the base's budget. If they are guarded, address and key are the
    base's; if the base has no evalgate.yml yet, the change's are used for a known provider."""
    head_judge = settings.gate_file.judge
    base_judge = JudgeRule() if base_side.settings is None else base_side.settings.gate_file.judge
    trusted_options: dict[str, Any] = (
        {} if _has_no_limit(base_judge.budget) else {"budget": base_judge.budget}
    )
    if is_guarded and not (
        base_side.settings is None and models.is_of_provider(head_judge.base_url)
    ):
        trusted_options |= {name: getattr(base_judge, name) for name in JUDGE_SETTINGS}
    notices = [
        base_side.notice(
            f"judge.{name}",
            base_setting=value,
            head_setting=getattr(head_judge, name),
            place=place,
            hint=HINT,
        )
        for name, value in trusted_options.items()
        for place in (settings.place_of("judge", name),)
        if getattr(head_judge, name) != value
    ]
    names = [name for name in ("model", "client", *JUDGE_SETTINGS) if getattr(head_judge, name)]
    if is_guarded and base_side.settings is None and not notices and names:
        description = words.listed(
            f"`{name}: {plain.label(getattr(head_judge, name), WIDTH)}`" for name in names
        )
        message = (
            f"the judge of this change's evalgate.yml is asked ({description}): {base_side.reason}"
        )
        hint = "It counts because it is asked at a known provider's own address."
        notices.append(errors.note(JUDGE_OF_CHANGE, message, settings.place_of("judge"), hint))
    return head_judge.model_copy(update=trusted_options), notices


# --- how models are reached ----------------------------------------------------------------------


def _with_client_options(
    suite: Suite, base: Base, base_side: _BaseSettings
) -> tuple[Suite, list[Problem]]:
    """The suite with the base's client options for its judges and its simulated users."""
    base_suite = base.project.suites.get(suite.key)
    uses = {} if base_suite is None else {use.name: use for use in base_suite.criteria}
    criteria = []
    problems = []
    for use in suite.criteria:
        base_config = (
            _config_of(uses[use.name])
            if use.name in uses
            else _rule_config(use, base_side.settings)
        )
        config = _replaced(_config_of(use), base_config)
        if config != _config_of(use):
            judge = {**use.options["judge_model_options"], "judge_model_config": config}
            options = {**use.options, "judge_model_options": judge}
            use = dataclasses.replace(use, options=options)  # noqa: PLW2901 - the same criterion
            place = use.place or Place(suite.key)
            problems.append(_other_client(f"`{use.name}` in {suite.key}", config, place))
        criteria.append(use)
    simulator = suite.simulator
    base_settings = base_side.settings
    if simulator.config is not None:
        rule = None if base_settings is None else base_settings.gate_file.simulator.config
        base_simulator_config = base_suite.simulator.config if base_suite is not None else None
        base_config = base_simulator_config or rule or {}
        config = _replaced(simulator.config, base_config)
        if config != simulator.config:
            place = simulator.place or Place(suite.key)
            problems.append(_other_client(f"the simulated users of {suite.key}", config, place))
            simulator = dataclasses.replace(simulator, config=config)
    return dataclasses.replace(suite, criteria=tuple(criteria), simulator=simulator), problems


def _rule_config(use: CriterionUse, base_settings: Settings | None) -> Json:
    """The configuration in the base's evalgate.yml of a criterion that the base does not have."""
    if base_settings is None:
        return {}
    judge = base_settings.gate_file.judge
    rule = judge.criteria.get(use.name)
    return {**(judge.config or {}), **((rule.config if rule else None) or {})}


def _config_of(use: CriterionUse) -> Json:
    options = use.options.get("judge_model_options")
    config = member(options, "judge_model_config")
    return config if isinstance(config, dict) else {}


def _client_options(config: Json) -> Json:
    return {name: value for name, value in config.items() if name in CLIENT_OPTIONS}


def _replaced(config: Json, base_config: Json) -> Json:
    """The configuration with the base's client options."""
    own_options = without(config, CLIENT_OPTIONS)
    return {**own_options, **_client_options(base_config)}


def _other_client(subject: str, config: Json, place: Place) -> Problem:
    reason = "the base's count" if _client_options(config) else "the base has none"
    message = f"the client options (`http_options`) of {subject}: {reason}, so this change's do not"
    return errors.note(SETTING_OF_BASE, message, place, HINT)
