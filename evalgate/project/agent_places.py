"""Whether the agents that somebody named are there, as far as that can be told without running anything."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from evalgate import agents
from evalgate.config.yaml import Locator
from evalgate.errors import Problem, Severity
from evalgate.model import AgentUse
from evalgate.project import reading, source_files, tree
from evalgate.project.agent_finding import AgentFolders
from evalgate.project.tree import Tree
from evalgate.text import words

_RULE = re.compile(r"agents\[(\d+)\]$")


class SeenCheckout:
    """What drivers may look at (base.Checkout), each looked for once it is asked for.

    `apart`: folders and files that are no part of any agent, see `source_files.walk`.
    """

    def __init__(self, root: Path, *, apart: Collection[str] = ()) -> None:
        self.root = root
        self._apart = apart

    def code(self, own: str | None = None) -> Iterator[str]:
        """See base.Checkout."""
        return source_files.walk(self.root, apart=self._apart, own=own)

    def below(self, folder: str) -> Iterator[str]:
        """See base.Checkout."""
        for where, folders, files in os.walk(self.root / folder):
            folders[:] = sorted(name for name in folders if name != ".git" and name not in tree.SKIPPED_FOLDERS)
            yield from (os.path.relpath(os.path.join(where, name), self.root) for name in files)  # noqa: PTH118 - many

    def agent_folders(self) -> Sequence[str]:
        """See base.Checkout."""
        read = functools.partial(reading.read_source, self.root)
        return AgentFolders(files=self._tree.agent_files, read=read).outermost()

    def json_files(self) -> Sequence[str]:
        """See base.Checkout."""
        return self._tree.other_json

    @functools.cached_property
    def _tree(self) -> Tree:
        return tree.walk(self.root)


def problems(uses: Iterable[AgentUse], *, root: Path, places: Locator | None) -> Iterator[Problem]:
    """What is wrong with the places of agents that a rule names, each agent once. `places`: of evalgate.yml, where it
    names them.

    An error for what no environment could make right, a warning for what may be installed.
    """
    checkout = SeenCheckout(root)
    told = set()
    for use in uses:
        rule, driver = _RULE.search(use.found_by), agents.DRIVERS.get(use.driver)
        if rule is None or driver is None or use.found_by in told:
            continue
        told.add(use.found_by)
        options = {name: value for name, value in use.options.items() if isinstance(value, str)}
        missing = driver.missing(options, checkout)
        if missing is not None:
            named = options.get(driver.argument, "") if use.driver == agents.DEFAULT else ""
            yield Problem(
                severity=Severity.ERROR if missing.certain else Severity.WARNING,
                code="agent-missing",
                message=missing.message,
                place=places("agents", int(rule[1]), missing.option) if places is not None else None,
                hint=_driver_meant(named) or missing.hint,
            )


def _driver_meant(text: str) -> str:
    """The hint where a driver may have been meant: `comand:node agent.mjs`."""
    name, colon, rest = text.partition(":")
    if not colon or len(name) < 2 or not name.isidentifier():
        return ""
    close = words.nearest(name, agents.DRIVERS)
    return f"Did you mean `{close}:{rest}`?" if close else f"`{name}` is no driver: {', '.join(agents.DRIVERS)}."
