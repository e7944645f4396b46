"""The linter of the gate's own rules: what of evalgate.yml and the inputs lets nothing block."""

from __future__ import annotations

import pytest

from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.discovery import lint


def told(text: str, **typed: object) -> list[tuple[str, int | None]]:
    read = load.parse_gate_file(text, file="evalgate.yml")
    assert not read.problems
    own = {"gate_file": read.gate_file, "explicit_options": typed, "places": read.places}
    settings = Settings.model_validate({**read.raw_settings, **typed, **own})
    return [
        (each.code, each.place.line if each.place else None) for each in lint.lint_rules(settings)
    ]


@pytest.mark.parametrize(
    ("text", "typed", "expected"),
    [
        ("", {}, []),
        ("pass-rate: 0.1\nfail-on: regression", {}, []),
        ("runs: 1\npass-rate: 0", {}, [("pass-rate-zero", 2)]),
        ("runs: 1\npass_rate: 0.0", {}, [("pass-rate-zero", 2)]),
        ("runs: 1\npass-rate: 0", {"pass_rate": 0.5}, []),  # what is typed wins
        ("pass-rate: 0.5", {"pass_rate": 0}, [("pass-rate-zero", None)]),
        ("", {"pass_rate": 0}, [("pass-rate-zero", None)]),
        ("fail-on: []", {}, [("nothing-blocks", 1)]),
        ("runs: 1\nfail-on: ''", {}, [("nothing-blocks", 2)]),
        ("suites:\n- match: [a]\n  pass_rate: 0", {}, [("pass-rate-zero", 3)]),
        # it decides nothing anyway
        ("suites:\n- match: [a]\n  pass_rate: 0\n  severity: advisory", {}, []),
        ("suites:\n- match: [a]\n  pass_rate: 0.5", {}, []),
    ],
)
def test_rules_that_let_nothing_block(
    text: str, typed: dict[str, object], expected: list[tuple[str, int | None]]
) -> None:
    assert told(text, **typed) == expected
