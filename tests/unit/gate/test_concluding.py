"""What the process, the check run and the advice say of a verdict: what blocks speaks, not what is
worst."""

from __future__ import annotations

import pytest
from builders import build

from evalgate.errors import ExitCode
from evalgate.github import publish
from evalgate.github.check_run import Conclusion
from evalgate.model import FailOn, Policy
from evalgate.reports import wording

REPAIR, ADVICE = "Fix the agent", "Without a result there is no pass"


@pytest.mark.parametrize(
    ("words", "fail_on", "exit_code", "conclusion", "step"),
    [
        ("fail error", "threshold not_measured", ExitCode.FAIL, Conclusion.FAILURE, REPAIR),
        ("fail error", "threshold", ExitCode.FAIL, Conclusion.FAILURE, REPAIR),
        # what was not measured blocks, and the failure beside it does not
        ("fail error", "not_measured", ExitCode.NOT_MEASURED, Conclusion.ACTION_REQUIRED, ADVICE),
        ("pass error", "not_measured", ExitCode.NOT_MEASURED, Conclusion.ACTION_REQUIRED, ADVICE),
        ("fail pass", "not_measured", ExitCode.PASS, Conclusion.NEUTRAL, REPAIR),
        ("fail error", "", ExitCode.PASS, Conclusion.NEUTRAL, REPAIR),
        ("pass pass", "not_measured", ExitCode.PASS, Conclusion.SUCCESS, ""),
    ],
)
def test_what_blocks_speaks(
    words: str, fail_on: str, exit_code: ExitCode, conclusion: Conclusion, step: str
) -> None:
    report = build.report(words, policy=Policy(fail_on=frozenset(map(FailOn, fail_on.split()))))
    without_files = build.changed(report, lacks_files=True)
    assert without_files.exit_code is not ExitCode.PASS
    if exit_code is ExitCode.PASS:
        assert publish.conclusion_of(without_files) is Conclusion.ACTION_REQUIRED
    assert report.exit_code is exit_code
    assert publish.conclusion_of(report) is conclusion
    assert wording.next_step(report).startswith(step)
    assert step or not wording.next_step(report)
