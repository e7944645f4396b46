"""What is found before a run, and what is not told twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from evalgate.config import load
from evalgate.errors import ConfigError
from evalgate.gate import prepare

CASE = {
    "eval_id": "c",
    "conversation": [
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "final_response": {"parts": [{"text": "hello"}]},
        },
    ],
}
RIGHT = "agents: [{driver: command, command: sh agent.sh}]"


@pytest.mark.parametrize(
    ("gate_file", "codes"),
    [
        (RIGHT, set()),
        ("runs: 2", {"no-agent"}),
        # a mistake elsewhere: the agent is named all the same
        (f"{RIGHT}\nexclude: evals/drafts", {"gate-file-shape"}),
        (f"{RIGHT}\njudge: gpt-4", {"gate-file-shape"}),
        # the mistake is where the agent is named, or may be: that none was found says nothing
        ("agents: [{driver: command, command: sh agent.sh, suites: evals}]", {"gate-file-shape"}),
        ("agnets: [{driver: command, command: sh agent.sh}]", {"unknown-setting"}),
        ("agents: [", {"yaml-syntax"}),
        # and where it certainly is not
        ("runz: 3", {"unknown-setting", "no-agent"}),
    ],
)
def test_no_agent_is_missed_where_evalgate_yml_may_name_it(
    gate_file: str, codes: set[str], tmp_path: Path
) -> None:
    (tmp_path / "evalgate.yml").write_text(gate_file)
    (tmp_path / "agent.sh").write_text("")
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')
    prepared = prepare.prepare(load.load_settings({"root": str(tmp_path)}), environ={})
    assert {problem.code for problem in prepared.problems} == codes


SET = {"eval_set_id": "a", "eval_cases": [CASE]}
SOUND = {"criteria": {"response_match_score": 0.5}}
JUDGED = {"criteria": {"final_response_match_v2": 0.5}}


@pytest.mark.parametrize(
    ("files", "settings", "apart"),
    [
        # an error of one file, its criteria or its agent
        ({"b/b.evalset.json": "{"}, {}, {"b/b.evalset.json"}),
        (
            {"b/b.evalset.json": SET, "b/test_config.json": {"criteria": {"zebra": 1}}},
            {},
            {"b/b.evalset.json"},
        ),
        (
            {"b/b.evalset.json": SET, "b/c.evalset.json": SET, "b/test_config.json": SET},
            {},
            {"b/b.evalset.json", "b/c.evalset.json"},
        ),
        ({"b/b.evalset.json": os.pardir}, {}, {"b/b.evalset.json"}),  # a link that leads nowhere
        (
            {"evalgate.yml": RIGHT.replace("}", ", suites: [a/**]}"), "b/b.evalset.json": SET},
            {},
            {"b/b.evalset.json"},
        ),
        # of the run: settings, what was asked for, a key that is not set, `strict`
        ({"evalgate.yml": f"{RIGHT}\nruns: 0", "b/b.evalset.json": "{"}, {}, None),
        ({"b/b.evalset.json": SET}, {"paths": ["a", "b/b.evalset.json:other"]}, None),
        ({"b/b.evalset.json": SET, "b/test_config.json": JUDGED}, {}, None),
        ({"b/b.evalset.json": "{"}, {"strict": True}, None),
        # nothing sound is left
        ({"a/a.evalset.json": ""}, {}, None),
        ({"a/a.evalset.json": {**SET, "eval_cases": []}}, {}, None),
    ],
)
def test_an_error_of_one_file_is_its_own(
    files: dict[str, object], settings: dict[str, object], apart: set[str] | None, tmp_path: Path
) -> None:
    given = {
        "evalgate.yml": RIGHT,
        "agent.sh": "",
        "a/a.evalset.json": SET,
        "a/test_config.json": SOUND,
    }
    for name, content in {**given, "b/test_config.json": SOUND, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if content == os.pardir:
            (tmp_path / name).symlink_to("nowhere")
        else:
            (tmp_path / name).write_text(
                content if isinstance(content, str) else json.dumps(content)
            )
    found = prepare.prepare(load.load_settings({"root": str(tmp_path), **settings}), environ={})
    assert found.stops(strict=False)
    if apart is None:
        with pytest.raises(ConfigError):
            prepare.require_sound(found, strict=bool(settings.get("strict")))
        return
    suites = {suite.key: suite for suite in prepare.require_sound(found, strict=False).suites}
    assert {key for key, suite in suites.items() if suite.problem} == apart
    assert all(suite.eval_set.cases or suite.problem for suite in suites.values())
    assert suites["a/a.evalset.json"].problem == ""
