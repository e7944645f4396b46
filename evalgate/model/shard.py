"""A part of a plan: which of all cases one machine measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate.model.case import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of `of` parts; `index` counts from 1.

    `plan`: every suite with all its cases, whichever part measures them; where it was read from a file, the cases have
    no content. `homes`: the index of the part that measures a case, by suite key and case id. `fingerprints`: of the
    content of all cases. `more`: further runs of cases whose outcomes differ, as planned. `fingerprint`: equal for
    parts of one plan.
    """

    index: int
    of: int
    plan: tuple[Suite, ...] = ()
    homes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    more: int = 0
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"
