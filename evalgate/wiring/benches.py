"""What all sides of a run share: how many trials at once, at what pace, within which bounds."""

from __future__ import annotations

import threading

from evalgate import __version__
from evalgate.config.settings import Settings
from evalgate.judges.base import JudgePanel
from evalgate.judges.rate_limit import RateLimiters
from evalgate.model import Shard
from evalgate.pipeline import pacing
from evalgate.pipeline.budget import Limits
from evalgate.pipeline.desk import Bench
from evalgate.pipeline.pacing import ProviderPace
from evalgate.plugins import Watcher
from evalgate.wiring import simulating


def bench_of(
    settings: Settings,
    *,
    shard: Shard | None,
    panel: JudgePanel | None,
    watcher: Watcher,
    limiters: RateLimiters,
    asks: bool,
) -> Bench:
    """The bench of a run. `asks`: whether an agent or a judge is asked; where all is recorded, there is no provider
    whose pace there is to mind, and threads would only take turns at one interpreter, which costs half as much again.
    """
    budget, stop = settings.budget, threading.Event()
    limits = Limits(agent_calls=budget.agent_calls, tokens=budget.tokens, usd=budget.usd)
    return Bench(
        watcher=watcher,
        stop=stop,
        concurrency=settings.concurrency if asks else 1,
        retries=settings.retries,
        adk_compat=settings.adk_compat,
        criterion_version=__version__,
        limits=limits if shard is None else limits.share(shard.index, shard.of),
        behaviours=settings.runs.most > 1,
        simulate=simulating.simulation_of(panel, settings),
        pace=ProviderPace(limiters, trials_at_once=settings.concurrency, stop=stop) if asks else pacing.unpaced,
        call_off=limiters.clock.call_off,
    )
