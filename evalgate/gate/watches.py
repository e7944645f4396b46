"""Who watches the checkouts of a run: from before the first process of an agent, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path

from evalgate.system.inputs import Tree
from evalgate.system.watching import Watch
from evalgate.values import frozen_dataclass


@frozen_dataclass
class Watches:
    """A watch for each checkout, of the copy of it that agents see."""

    trees: Sequence[Tree]
    stack: ExitStack
    by_top: dict[Path, Watch] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(cls, trees: Sequence[Tree]) -> Iterator[Watches]:
        """Watches of these checkouts, none of which has begun; they end with the block."""
        with ExitStack() as stack:
            yield cls(trees=trees, stack=stack)

    def begin(self, top: Path, copy: Path) -> None:
        """Watch the copy of a checkout from now on, if the checkout is a side's."""
        for tree in self.trees:
            if tree.top == top and top not in self.by_top:
                self.by_top[top] = self.stack.enter_context(Watch(copy, tree.apart))

    def of(self, tree: Tree) -> Watch | None:
        """The watch of a checkout; None before it has begun."""
        return self.by_top.get(tree.top)
