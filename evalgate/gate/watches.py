"""The file watches of a run's checkouts, started before the first process of an agent in any
language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path

from evalgate.system.inputs import Snapshot
from evalgate.system.isolation import Isolation
from evalgate.system.watching import Watch
from evalgate.values import frozen_dataclass


@frozen_dataclass
class Watches:
    """The watches of each checkout: one, or one per copy that agents and metrics see."""

    trees: Sequence[Snapshot]
    stack: ExitStack
    by_top: dict[Path, list[Watch]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def of_trees(cls, trees: Sequence[Snapshot]) -> Iterator[Watches]:
        """Watches of these checkouts, not started yet; they end with the block."""
        with ExitStack() as stack:
            yield cls(trees=trees, stack=stack)

    def begin_with(self, isolation: Isolation | None) -> None:
        """Start now, or with each copy of a checkout."""
        if isolation is None:
            for tree in self.trees:
                self.begin(tree.top, tree.top)
            return
        for sandbox in (isolation.head, isolation.base, isolation.metrics):
            sandbox.copies.ready.append(self.begin)

    def begin(self, top: Path, copy: Path) -> None:
        """Watch the copy of a checkout."""
        for tree in self.trees:
            if tree.top == top:
                self.by_top.setdefault(top, []).append(
                    self.stack.enter_context(Watch(copy, {*tree.apart, *tree.environments}))
                )

    def of(self, tree: Snapshot) -> Sequence[Watch]:
        """The watches of a checkout; none before they start."""
        return tuple(self.by_top.get(tree.top, ()))
