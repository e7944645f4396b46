"""What a step says to its runner."""

from __future__ import annotations

import pytest

from evalgate.config import settings
from evalgate.errors import ConfigError, EvalgateError
from evalgate.wiring import step_log


def test_the_switch_is_read_as_the_setting_of_that_name() -> None:
    read = {
        word: settings.Settings.model_validate({"debug": word}).debug
        for word in (*step_log.TRUE, "TRUE", "false", "0", "off")
    }
    assert read == {word: step_log.wants_tracebacks({"INPUT_DEBUG": word}) for word in read}


@pytest.mark.parametrize(
    ("environ", "wants"),
    [
        ({"INPUT_DEBUG": "true"}, True),
        ({"RUNNER_DEBUG": "1"}, True),
        ({"RUNNER_DEBUG": "1", "INPUT_DEBUG": "false"}, True),  # a run again with debug logging asks for all there is
        ({"INPUT_DEBUG": ""}, False),  # not given
        ({}, False),
    ],
)
def test_who_looks_for_a_fault_sees_the_traceback(
    environ: dict[str, str], *, wants: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ConfigError("no such folder")
    except EvalgateError as error:
        step_log.tell_error(error, folder="", debug=step_log.wants_tracebacks(environ))
    said = capsys.readouterr().out
    assert "::error" in said
    assert ("Traceback (most recent call last)" in said) is wants
