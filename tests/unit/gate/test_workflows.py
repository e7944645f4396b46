"""Workflows that run evalgate: what is read of them, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.config import variables
from evalgate.config.settings import Settings
from evalgate.errors import Problem
from evalgate.gate import doctor
from evalgate.gate.doctor import GateStep
from evalgate.wings.author import starter

GIVEN = {name: variables.secret(name) for name in ("DESK_URL", "GOOGLE_API_KEY")}
SOUND = starter.render_workflow(GIVEN, action="acme/evalgate/gate@v1").replace(
    "env: DESK_URL\n", "env: DESK_URL, GOOGLE_API_KEY\n"
)
PERMISSIONS = "permissions: {contents: read, pull-requests: write, checks: write}"
NAMES = "          env: DESK_URL, GOOGLE_API_KEY\n"


def steps(folder: Path, text: str) -> list[GateStep | Problem]:
    place = folder / doctor.WORKFLOWS / "gate.yml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return list(doctor.steps_of(folder))


def told(folder: Path, text: str) -> list[str]:
    found = steps(folder, text)
    assert found
    return [
        each.code
        for step in found
        for each in ([step] if isinstance(step, Problem) else doctor.problems_of_step(step))
    ]


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("", "", []),
        ("on: pull_request", "on: [push, pull_request_target]", ["workflow-event"]),
        ("on: pull_request", "on: {pull_request_target: {types: [opened]}}", ["workflow-event"]),
        ("acme/", "OWNER/", ["workflow-owner"]),
        (", pull-requests: write", "", ["workflow-permissions"]),
        # without any of its own, those of the workflow, which are none
        (f"    {PERMISSIONS}", "    x: 1", ["workflow-permissions"]),
        (f"    {PERMISSIONS}", "    permissions: read-all", ["workflow-permissions"]),
        (f"    {PERMISSIONS}", "    permissions: write-all", []),
        # the container alone
        ("acme/evalgate/gate@v1", "acme/evalgate@v1", []),
        ("        with: {persist-credentials: false}\n", "", ["token-in-checkout"]),
        ("actions/checkout@", "acme/checkout@", ["workflow-checkout"]),
        ("name: evalgate\non", "name: [\non", ["yaml-syntax"]),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path: Path, old: str, new: str, codes: list[str]) -> None:
    assert old in SOUND
    assert told(tmp_path, SOUND.replace(old, new, 1)) == codes


@pytest.mark.parametrize(
    "example", ["matrix.yml", "fork-safe-gate.yml", "fork-safe-post.yml", "with-judge.yml"]
)
def test_our_examples_lack_nothing_but_the_owner(tmp_path: Path, example: str) -> None:
    text = (Path(__file__).resolve().parents[3] / "examples" / "workflows" / example).read_text(
        encoding="utf-8"
    )
    assert set(told(tmp_path, text)) == {"workflow-owner"}


@pytest.mark.parametrize(
    "text",
    ["evalgate: [", "evalgate", "jobs: evalgate", "jobs: {a: {steps: evalgate}}", "jobs: {a: [evalgate]}",
     "jobs: {a: {steps: [evalgate, {uses: 7}, {uses: x/evalgate, with: y}]}}\npermissions: 3"],
)  # fmt: skip
def test_odd_files_are_read_as_far_as_they_go(tmp_path: Path, text: str) -> None:
    found = steps(tmp_path, text)
    # the step, or that YAML is broken
    assert len(found) == ("uses: x/evalgate" in text or text == "evalgate: [")
    for step in found:
        assert all(
            each.message
            for each in (doctor.problems_of_step(step) if isinstance(step, GateStep) else ())
        )


@pytest.mark.parametrize(
    ("needed", "step", "absent"),
    [
        (["GOOGLE_API_KEY", "DESK_URL"], "", ""),
        (["SERP_API_KEY"], "", "SERP_API_KEY"),
        # the step names it and sets nothing
        ([], "          env: DESK_URL, GOOGLE_API_KEY, OTHER\n", "OTHER"),
        # another way to ask the same model
        (["GEMINI_API_KEY"], "", ""),
        (["SERP_API_KEY"], f"          paths: evals/one\n{NAMES}", ""),
    ],
)
def test_variables_that_a_workflow_does_not_give(
    tmp_path: Path, needed: list[str], step: str, absent: str
) -> None:
    text = SOUND.replace(NAMES, step) if step else SOUND
    (found,) = steps(tmp_path, text)
    assert isinstance(found, GateStep)
    problems = list(doctor.unset_in_step(found, needed, Settings()))
    assert [each.message for each in problems] == (
        [f"the agent would not get {absent}"] if absent else []
    )
    for each in problems:
        assert f"      {absent}: ${{{{ secrets.{absent} }}}}" in each.hint


def test_signing_in_sets_credentials(tmp_path: Path) -> None:
    before = "      - uses: google-github-actions/auth@v3\n      - uses: acme/"
    text = SOUND.replace(NAMES, NAMES.replace("\n", ", GOOGLE_APPLICATION_CREDENTIALS\n"))
    (without,) = steps(tmp_path, text)
    (found,) = steps(tmp_path, text.replace("      - uses: acme/", before))
    assert isinstance(without, GateStep) and isinstance(found, GateStep)  # noqa: PT018 - for the type checker
    assert [each.code for each in doctor.unset_in_step(without, [], Settings())] == [
        "workflow-variable"
    ]
    assert list(doctor.unset_in_step(found, [], Settings())) == []
