"""What the base's checkout says for head's suites: renamed files, endpoints, agents that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.wiring import agent_pools, base_checkout, choosing, preparing

HTTP = {
    "driver": "http",
    "url": "http://127.0.0.1:1/{session_id}",
    "request": {"q": "{text}"},
    "response": {"text": "$"},
}
COMMAND = {"driver": "command", "command": "agent"}


def side(root: Path, *, agents: list[Any], files: dict[str, list[str]]) -> Path:
    root.mkdir()
    (root / "evalgate.yml").write_text(json.dumps({"agents": agents}))
    for name, asked in files.items():
        cases = [
            {"eval_id": each, "conversation": [{"user_content": {"role": "user", "parts": [{"text": each}]}}]}
            for each in asked
        ]
        (root / name).write_text(json.dumps({"eval_set_id": name, "eval_cases": cases}))
    return root


@pytest.mark.parametrize(
    ("before", "now", "renamed"),
    [
        ({"a": "1234"}, {"b": "1234"}, {"b": "a"}),
        ({"a": "1234"}, {"b": "12xy"}, {"b": "a"}),  # half of it is the same
        ({"a": "1234"}, {"b": "1xyz"}, {}),  # another file
        ({"a": "1234"}, {"a": "1", "b": "1234"}, {}),  # a copy: the old one is still there
        ({"a": "1234"}, {"b": "12", "c": "1234"}, {"b": "a"}),  # once only, the first that has half of it
        ({"a": "12", "b": "34"}, {"c": "34", "d": "12"}, {"c": "b", "d": "a"}),
        ({"a": "12"}, {"b": ""}, {}),
    ],
)
def test_a_file_is_followed_by_its_questions(
    tmp_path: Path, before: dict[str, str], now: dict[str, str], renamed: dict[str, str]
) -> None:
    sets = []
    for number, files in enumerate((before, now)):
        named = {f"{name}.evalset.json": list(asked) for name, asked in files.items()}
        root = side(tmp_path / str(number), agents=[COMMAND], files=named)
        sets.append(preparing.prepare(choosing.choose({"root": str(root)}), environ={}).suites)
    expected = {f"{ours}.evalset.json": f"{theirs}.evalset.json" for ours, theirs in renamed.items()}
    assert base_checkout.renames(*sets) == expected


@pytest.mark.parametrize(
    ("theirs", "ours", "missing", "why"),
    [
        ([HTTP], [HTTP], False, "same on both sides"),  # running it twice would compare head with itself
        ([HTTP], [COMMAND], False, ""),
        ([{**HTTP, "url": "http://127.0.0.1:2/"}], [HTTP], False, ""),  # two deployments
        ([{"driver": "nonsense"}], [COMMAND], False, "does not exist: nonsense"),
        ([], [COMMAND], True, "no agent"),  # nothing that could have become worse
    ],
)
def test_the_agent_of_the_base(tmp_path: Path, theirs: list[Any], ours: list[Any], missing: bool, why: str) -> None:
    files = {"a.evalset.json": ["1"]}
    base = side(tmp_path / "base", agents=theirs, files=files)
    choice = choosing.choose({"root": str(side(tmp_path / "head", agents=ours, files=files))})
    suites = preparing.prepare(choice, environ={}).suites
    use = base_checkout.read(choice, base, suites, {}).agents["a.evalset.json"]
    assert agent_pools.is_missing(use) is missing
    assert why in str(use.options.get("why", ""))
    assert (use.driver == agent_pools.ABSENT) is bool(why)
