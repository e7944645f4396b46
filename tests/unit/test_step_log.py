"""What a step says to its runner."""

from __future__ import annotations

import pytest

from evalgate import action
from evalgate.errors import ConfigError, EvalgateError


@pytest.mark.parametrize("wants", [True, False])
def test_who_looks_for_a_fault_sees_the_traceback(
    *, wants: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ConfigError("no such folder")
    except EvalgateError as error:
        action.report_error(error, {}, debug=wants)
    said = capsys.readouterr().out
    assert "::error" in said
    assert ("Traceback (most recent call last)" in said) is wants
