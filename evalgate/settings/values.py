"""How values of settings may be written: lists, repeats and budgets, as a text of an input or as YAML has them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def split_list(value: Any) -> Any:
    """`a, b` or one item a line, as inputs of a workflow are strings; a list stays as it is."""
    if not isinstance(value, str):
        return value
    separators = value.replace("\n", ",")
    return tuple(item.strip() for item in separators.split(",") if item.strip())


def split_lines(value: Any) -> Any:
    """One item a line: for items that may hold commas."""
    if not isinstance(value, str):
        return value
    return tuple(line.strip() for line in value.splitlines() if line.strip())


Listed = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Lines = Annotated[tuple[str, ...], BeforeValidator(split_lines)]


class Runs(BaseModel):
    """How often a case runs: `start` times, and `more` times where its outcomes differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: int = Field(default=1, ge=1, le=1000)
    more: int = Field(default=0, ge=0, le=1000)

    @property
    def most(self) -> int:
        """How often a case runs at most."""
        return self.start + self.more

    def __str__(self) -> str:
        return f"{self.start}+{self.more}" if self.more else str(self.start)


class AgentBudget(BaseModel):
    """What the runs of agents may cost, both sides together; none: no bound."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_calls: int | None = Field(default=None, ge=1, description="Runs of a case.")
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self if value is not None)


def split_runs(value: Any) -> Any:
    """`5`, `2+3` or {start: 2, more: 3}."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"start": value}
    if isinstance(value, str):
        start, plus, more = value.partition("+")
        return {"start": start.strip(), "more": more.strip()} if plus else {"start": start.strip()}
    return value


def split_pairs(value: Any) -> Any:
    """`usd=2, tokens=100000` (or with colons, one a line) as a mapping."""
    if not isinstance(value, str):
        return value
    pairs = {}
    for item in split_list(value):
        name, _, amount = item.replace(":", "=", 1).partition("=")
        pairs[name.strip().replace("-", "_")] = amount.strip().lstrip("$").replace("_", "")
    return pairs


Repeated = Annotated[Runs, BeforeValidator(split_runs)]
Bounded = Annotated[AgentBudget, BeforeValidator(split_pairs)]
