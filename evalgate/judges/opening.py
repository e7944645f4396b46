"""From what the gate's file says of judges to a panel, and what stands in the way, told before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from evalgate.errors import ConfigError
from evalgate.judges import usage
from evalgate.judges.base import JudgeDefaults, JudgeDriver
from evalgate.judges.cache import VerdictCache
from evalgate.judges.clients import Clients
from evalgate.judges.panel import VotingPanel
from evalgate.judges.rate_limit import Clock, RateLimiters, SystemClock
from evalgate.judges.replay import Recorder
from evalgate.judges.usage import Budget, UsageLedger


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
    clients = Clients(drivers, defaults=defaults, environment=environment, clock=SystemClock())
    return {model: said for model in dict.fromkeys(models) if (said := clients.missing(model))}


def open_panel(
    models: Iterable[str],
    *,
    drivers: Mapping[str, JudgeDriver],
    defaults: JudgeDefaults,
    environment: Mapping[str, str],
    cache: Path | None,
    warn: Callable[[str], None],
    clock: Clock | None = None,
    limiters: RateLimiters | None = None,
) -> VotingPanel:
    """A panel for a run that asks `models`; to be closed. `cache`: absolute folder, None: nothing is remembered.
    `limiters`: those that the run's agents keep to as well; None: judges have their own.

    Clients are opened when they are first asked. Raises ConfigError on a budget in money with a model of unknown
    price, and on a recording that cannot be written.
    """
    time = limiters.clock if limiters else clock or SystemClock()
    clients = Clients(drivers, defaults=defaults, environment=environment, clock=time, limiters=limiters)
    limits = defaults.limits
    if limits.cost_usd is not None:
        usage.check_priced(limits, {model: clients.is_priced(model) for model in models})
    try:
        recorder = Recorder(Path(defaults.record)) if defaults.record else None
    except OSError as error:
        raise ConfigError(f"replies cannot be recorded in {defaults.record}: {error.strerror}") from error
    return VotingPanel(
        clients,
        budget=Budget(limits),
        ledger=UsageLedger(),
        cache=None if cache is None else VerdictCache(cache, warn=warn),
        recorder=recorder,
        calls_at_once=defaults.calls_at_once,
        warn=warn,
    )
