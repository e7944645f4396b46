"""What judging took, in words: unknown is unknown, and never $0."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build
from builders.scenarios import SCENARIOS

from evalgate import reports
from evalgate.model import JudgeUse, Report
from evalgate.model.run import total_of
from evalgate.reports import view
from evalgate.reports.phrases import phrase


def use(**fields: object) -> JudgeUse:
    return dataclasses.replace(JudgeUse(criterion="c", model="m"), **fields)


PRICED = use(calls=3, cost_usd=0.02)
UNPRICED = use(calls=2, unpriced=2)
READ = use(cached=4)


@pytest.mark.parametrize(
    ("uses", "figure", "cost", "exact"),
    [
        ([PRICED], "3 calls, $0.02", "$0.02", "0.02"),
        ([PRICED, READ], "3 calls, 4 cached, $0.02", "$0.02", "0.02"),
        ([UNPRICED], "2 calls, cost unknown", "unknown", ""),
        ([PRICED, UNPRICED], "5 calls, at least $0.02", "at least $0.02", ""),
        ([READ], "0 calls, 4 cached", "-", "0"),  # nobody was asked: nothing was paid, for certain
        ([use(failures={"timeout": 2})], "0 calls, 2 failed", "-", "0"),
        ([use(calls=1, cost_usd=0.000045)], "1 call, $0.00005", "$0.00005", "0.000045"),
        # cut, and paid
        (
            [use(failures={"truncated": 1}, cost_usd=0.5)],
            "0 calls, 1 failed, $0.50",
            "$0.50",
            "0.5",
        ),
    ],
)
def test_unknown_is_never_nothing(uses: list[JudgeUse], figure: str, cost: str, exact: str) -> None:
    assert view.judges_summary(uses) == figure
    assert view.judge_cost(total_of(uses)) == cost
    assert outputs(*uses)[1] == exact


def test_a_row() -> None:
    told = view.judge_row(
        use(
            calls=1204,
            cached=7,
            retries=2,
            prompt_tokens=41_200,
            output_tokens=0,
            failures={"rate_limited": 2},
        )
    )
    assert told == ("1,204", "7", "2", "2 (2 rate limited)", "41.2k", "-", "-")
    assert view.judge_row(READ) == ("0", "4", "0", "0", "-", "-", "-")
    assert len(told) + 2 == len(phrase("judge_header").split("|"))


def outputs(*uses: JudgeUse) -> tuple[str, str]:
    made = build.report("pass")
    found = reports.render_outputs(
        dataclasses.replace(made, run=dataclasses.replace(made.run, judges=uses))
    )
    return found["judge-calls"], found["judge-cost-usd"]


def test_outputs() -> None:
    assert outputs() == ("0", "0")
    assert outputs(PRICED, READ) == ("3", "0.02")
    assert outputs(PRICED, UNPRICED) == ("5", "")
    assert outputs(use(calls=1, cost_usd=0.0000451)) == ("1", "0.000045")


@pytest.mark.parametrize("file", ["comment", "summary", "html"])
def test_reports_say_what_judging_took(file: str) -> None:
    judged: Report = SCENARIOS["judged"]()
    said = "44 calls, 88 cached, 3 failed, at least $0.02"
    assert said in reports.RENDERERS[file].render(judged).replace("<span>$</span>", "$")
    assert said in reports.render_terminal(judged)
    plain = reports.RENDERERS[file].render(build.report("pass")) + reports.render_terminal(
        build.report("pass")
    )
    assert "judge" not in plain.lower().replace("judge-", "")


def test_the_folded_table_has_a_row_a_criterion() -> None:
    judged = SCENARIOS["judged"]()
    for file in ("summary", "html"):
        text = reports.RENDERERS[file].render(judged)
        folded = text[text.index("<details><summary>Judges") :]
        assert all(use.criterion in folded for use in judged.run.judges)
        assert "3 (1 blocked, 2 rate limited)" in folded


def test_calls_that_played_users_are_told_apart() -> None:
    played = use(criterion="user_simulator", calls=6, cached=1)
    assert (
        view.judges_summary([PRICED, played])
        == f"{PRICED.calls + 6} calls (6 by simulated users), 1 cached, $0.02"
    )
    assert view.judges_summary([use(criterion="user_simulator", cached=3)]) == "0 calls, 3 cached"
    made = build.report("pass")
    told = dataclasses.replace(made, run=dataclasses.replace(made.run, judges=(PRICED, played)))
    for file in ("summary", "html"):
        text = reports.RENDERERS[file].render(told)
        assert "simulated users" in text[text.index("Judges: ") :]
        assert "user_simulator" not in text
