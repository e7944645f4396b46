"""Head beside base: what keeps all of it from being compared."""

from __future__ import annotations

import pytest
from builders import sides

from evalgate.baseline import failures
from evalgate.comparison.book import Sides
from evalgate.model import CaseStatus, Policy


@pytest.mark.parametrize(
    ("text", "statuses", "problem", "listed"),
    [
        ("P/P P/P", {}, "", ["paired", "paired"]),
        ("P/. P/.", {}, "no base result could be compared", []),
        ("P/! P/!", {}, "the base's agent did not run: KeyError: 'city'", []),
        # c1 was to be compared; that c0 is new is known all the same
        ("P/. P/.", {"c0": CaseStatus.NEW}, "no base result could be compared", ["new"]),
        # every case was replaced: that is no fault of the base, and every one of them is listed
        (
            "P/. P/.",
            {"c0": CaseStatus.NEW, "c1": CaseStatus.NEW, "old": CaseStatus.REMOVED},
            "",
            ["new", "new", "removed"],
        ),
        ("P/. P/.", {"c0": CaseStatus.NEW, "c1": CaseStatus.CHANGED}, "", ["new", "changed"]),
    ],
)
def test_a_base_without_results_is_told_from_cases_that_it_cannot_have(
    text: str, statuses: dict[str, CaseStatus], problem: str, listed: list[str]
) -> None:
    head, base = sides.sides(text)
    both = Sides(
        head=head,
        base=base,
        policy=Policy(),
        unpaired={(sides.SUITE, case_id): status for case_id, status in statuses.items()},
    )
    comparison = failures.compare(both, origin=sides.ORIGIN)
    assert comparison.problem == problem
    assert [case.status.value for case in comparison.cases] == listed
