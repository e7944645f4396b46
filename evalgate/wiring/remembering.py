"""Stores of base runs around a run: opened before it, asked what they remember, given its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from evalgate.config.settings import Settings
from evalgate.gate.pairing import CaseKey
from evalgate.model import Policy, Run
from evalgate.wiring import saving, stores
from evalgate.wiring.concluding import Gated
from evalgate.wiring.saving import Keeping, Past
from evalgate.wiring.scenes import Scene


def opened(settings: Settings, scene: Scene, cache: Path, stack: ExitStack) -> Keeping | None:
    """The stores that the settings name, to be kept in and for their history; opened before any agent runs."""
    named = bool(settings.data_branch or settings.baseline_folder)
    if not named or (settings.shard and not settings.admission):  # a part is not kept, and shows no trend
        return None
    found = saving.opened(
        settings, settings.root, environ=scene.environ, token=scene.token, cache=cache, say=scene.watcher.say
    )
    return stack.enter_context(found)


def _is_saved(settings: Settings, scene: Scene) -> bool:
    if settings.shard:  # a part is no base for anybody
        return False
    return settings.save_baseline == "always" or (settings.save_baseline == "auto" and scene.on_base_branch)


def past_of(keeping: Keeping | None, policy: Policy, scene: Scene) -> Past:
    """What the stores remember of base runs."""
    if keeping is None:
        return Past()
    return saving.past_of(keeping.stores, admission=policy.admission, say=scene.watcher.say)


def unreliable_of(
    keeping: Keeping | None, past: Past, run: Callable[[], Run], policy: Policy, scene: Scene
) -> frozenset[CaseKey]:
    """The cases that the history does not let decide yet (`admission`)."""
    if keeping is None or not policy.admission:
        return frozenset()
    return saving.unreliable(past, run(), policy=policy, say=scene.watcher.say)


def keep(gated: Gated, keeping: Keeping | None, scene: Scene, settings: Settings, *, now: datetime) -> Gated:
    """Keep a complete run on the base branch, whatever its verdict: later runs are compared with what is there."""
    results, run = gated.files.get("results"), gated.report.run
    if keeping is None or results is None or not _is_saved(settings, scene) or not run.complete:
        return gated
    if run.truncated:  # it would take the place of a whole run
        scene.watcher.say(f"the results are not stored: {run.truncated}")
        return gated
    if not stores.has_conversation(run):  # an outage: nothing could be compared with it
        scene.watcher.say("the results are not stored: the agent failed in every run")
        return gated
    problems = keeping.save(gated.report.run, results, policy=gated.report.policy, now=now)
    report = dataclasses.replace(gated.report, problems=(*gated.report.problems, *problems))
    return dataclasses.replace(gated, report=report)
