"""Causes: one line for each way in which cases fail, whoever they are."""

from __future__ import annotations

import pytest
from builders.scenarios import SCENARIOS

from evalgate.reports import causes, view


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_case_that_does_not_pass_has_one_cause(scenario: str) -> None:
    found = view.of(SCENARIOS[scenario]()).cases
    told = causes.of(found)
    names = [case.verdict.key for cause in told for case in cause.cases]
    assert sorted(names) == sorted(case.verdict.key for case in found if case.kind.value != "pass")
    assert all(cause.text and "\n" not in cause.text and len(cause.text) <= causes.LIMIT for cause in told)
    assert len({(cause.status, cause.text) for cause in told}) == len(told)
