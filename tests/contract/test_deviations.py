"""Every row of the table of deviations from google-adk is read by some module, and taken back by
the setting."""

import dataclasses
from pathlib import Path

import pytest

from evalgate.model import deviations
from evalgate.model.deviations import Deviations

TABLE = Path(deviations.__file__)
SOURCE = "\n".join(path.read_text() for path in TABLE.parents[1].rglob("*.py") if path != TABLE)


@pytest.mark.parametrize("name", [row.name for row in dataclasses.fields(Deviations)])
def test_a_row_is_a_rule_that_is_read_and_taken_back(name: str) -> None:
    assert f"deviations.{name}" in SOURCE
    assert getattr(deviations.under(adk_compat=False), name) is not getattr(
        deviations.under(adk_compat=True), name
    )
