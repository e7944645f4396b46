"""What is known of a base before anything of it is measured, and what finding one needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evalgate.agents import opening
from evalgate.config.settings import Settings
from evalgate.model import AgentUse, BaseOrigin, Suite
from evalgate.results.file import Stored
from evalgate.wiring.base_checkout import Rules

STORES = ("data_branch", "baseline_folder")
"""Settings that name where results and the history of base runs are kept."""


def rules_of_base(head: Settings, theirs: Settings | None) -> bool:
    """Whether the base's rules decide: one of both evalgate.yml says so, and head's cannot take back the base's."""
    return head.policy == "base" or (theirs is not None and theirs.policy == "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base, before anything of it was measured.

    `root`: its code on disk, None where only results are at hand. `agents`: of every suite of head's, by its key; a
    suite without one has an absent agent. `reusable`: suites whose stored trials may stand in. `rules`, `settings`: the
    base's own, None where they are not known. `renamed`: the base's name of an evaluation file by head's, where they
    differ. `rerun`: the origin if nothing that is stored stands in, after all. `problem`: why there is nothing to
    compare with; `no_agent`: because the base has no agent yet, or no case of those that are run, which is nobody's
    fault.
    """

    origin: BaseOrigin
    root: Path | None = None
    reusable: frozenset[str] = frozenset()
    agents: Mapping[str, AgentUse] = dataclasses.field(default_factory=dict)
    rules: Rules | None = None
    settings: Settings | None = None
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stored: Stored | None = None
    rerun: BaseOrigin | None = None
    problem: str = ""
    no_agent: bool = False

    def lacks_agent(self, suite: str) -> bool:
        """Whether its code is here and has no agent for this suite."""
        use = self.agents.get(suite)
        return self.root is not None and (use is None or opening.is_missing(use))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What finding a base needs: `event_base`: the SHA that the event names, "" at a desk. `tools`: the fingerprint
    of what answers tool calls in the agents' stead, by a side's checkout.
    """

    settings: Settings
    suites: tuple[Suite, ...]
    environ: Mapping[str, str]
    cache: Path
    say: Callable[[str], None]
    now: datetime
    event_base: str = ""
    token: str | None = None
    tools: Callable[[Path], str] = lambda _: ""
