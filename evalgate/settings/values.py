"""How values of settings may be written: lists, repeats and budgets, as a text of an input or as YAML has them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError


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


RUNS = "must be a whole number from 1 to 1000, or two of them: `2+3` or {start: 2, more: 3}"
BOUNDS = "`agent_calls`, `tokens` and `usd`, as in `agent_calls=200, usd=2`"


def parse_runs(value: Any) -> Any:
    """`5`, `2+3` or {start: 2, more: 3}; whatever else it is, one sentence says what it may be."""
    try:
        return Runs.model_validate(_split_runs(value))
    except ValidationError:
        raise PydanticCustomError("runs", "{said}", {"said": RUNS}) from None


def _split_runs(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"start": value}
    if isinstance(value, str):
        start, plus, more = value.partition("+")
        return {"start": start.strip(), "more": more.strip()} if plus else {"start": start.strip()}
    return value


def parse_budget(value: Any) -> Any:
    """`usd=2, tokens=100000` (or with colons, one a line) or a mapping; what is wrong with it is said by bound."""
    try:
        return AgentBudget.model_validate(_split_pairs(value))
    except ValidationError as error:
        said = "; ".join(dict.fromkeys(_fault_of_bound(each) for each in error.errors()))
        raise PydanticCustomError("budget", "{said}", {"said": said}) from None


def _fault_of_bound(error: ErrorDetails) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    if name in AgentBudget.model_fields:
        return f"`{name}` must be {'a number above 0' if name == 'usd' else 'a whole number of at least 1'}"
    return f"`{name}` is not a valid bound; bounds are {BOUNDS}" if name else f"bounds need names: {BOUNDS}"


def _split_pairs(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = {}
    for item in split_list(value):
        name, equals, amount = item.replace(":", "=", 1).partition("=")
        if not equals and not name.strip().isidentifier():
            return value  # a number, or a piece of one, without the name of what it bounds
        pairs[name.strip().replace("-", "_")] = amount.strip().lstrip("$").replace("_", "")
    return pairs


Repeated = Annotated[Runs, BeforeValidator(parse_runs)]
Bounded = Annotated[AgentBudget, BeforeValidator(parse_budget)]
