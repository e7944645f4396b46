"""From what the gate's file says of judges to a panel, and what stands in the way, told before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from evalgate.errors import ConfigError
from evalgate.judging import budget
from evalgate.judging.budget import Budget
from evalgate.judging.cache import VerdictCache
from evalgate.judging.clock import Clock, SystemClock
from evalgate.judging.governors import Governors
from evalgate.judging.ledger import Ledger
from evalgate.judging.options import JudgeDefaults
from evalgate.judging.panel import VotingPanel
from evalgate.judging.recording import Recorder
from evalgate.judging.roster import Roster
from evalgate.plugins import JudgeDriver


def missing(
    models: Iterable[str],
    *,
    drivers: Mapping[str, JudgeDriver],
    defaults: JudgeDefaults,
    environment: Mapping[str, str],
) -> Mapping[str, str]:
    """What is missing to ask each of `models`, by model, with the next step; those that can be asked are left out.

    Asks nobody and spends nothing.
    """
    roster = Roster(drivers, defaults=defaults, environment=environment, clock=SystemClock())
    return {model: said for model in dict.fromkeys(models) if (said := roster.missing(model))}


def open_panel(
    models: Iterable[str],
    *,
    drivers: Mapping[str, JudgeDriver],
    defaults: JudgeDefaults,
    environment: Mapping[str, str],
    cache: Path | None,
    warn: Callable[[str], None],
    clock: Clock | None = None,
    governed: Governors | None = None,
) -> VotingPanel:
    """A panel for a run that asks `models`; to be closed. `cache`: absolute folder, None: nothing is remembered.
    `governed`: the governors that the run's agents keep to as well; None: judges have their own.

    Clients are opened when they are first asked. Raises ConfigError on a budget in money with a model of unknown
    price, and on a recording that cannot be written.
    """
    time = governed.clock if governed else clock or SystemClock()
    roster = Roster(drivers, defaults=defaults, environment=environment, clock=time, governed=governed)
    limits = defaults.limits
    if limits.cost_usd is not None:
        budget.check_priced(limits, {model: roster.is_priced(model) for model in models})
    try:
        recorder = Recorder(Path(defaults.record)) if defaults.record else None
    except OSError as error:
        raise ConfigError(f"replies cannot be recorded in {defaults.record}: {error.strerror}") from error
    return VotingPanel(
        roster,
        budget=Budget(limits),
        ledger=Ledger(),
        cache=None if cache is None else VerdictCache(cache, warn=warn),
        recorder=recorder,
        calls_at_once=defaults.calls_at_once,
        warn=warn,
    )
