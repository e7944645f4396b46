"""Rules of evalgate.yml that match nothing are told, with their line and the nearest name."""

import pytest

from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.discovery import lint

FOUND = ("evals/desk.evalset.json", "evals/slow/night.evalset.json", "weather/w.test.json")


def _settings(reading):
    return Settings(gate_file=reading.gate_file, places=reading.places)


def told(text, found=FOUND):
    reading = load.parse_gate_file(text, file="evalgate.yml")
    assert not reading.problems
    problems = lint.pattern_problems(_settings(reading), files=found)
    return [
        (each.place.line, each.message.partition(" matches")[0], each.hint) for each in problems
    ]


@pytest.mark.parametrize(
    ("text", "line", "what", "near"),
    [
        # a file's name mistyped, its folder given or not
        (
            "suites:\n- match: [desl.evalset.json]\n",
            2,
            "`suites[0]`: `desl.evalset.json`",
            "evals/desk.evalset.json",
        ),
        (
            "suites:\n- match: [eval/desk.evalset.json]\n",
            2,
            "`suites[0]`",
            "evals/desk.evalset.json",
        ),
        # a folder's
        (
            "agents:\n- {}\n- suites: [wether/**]\n",
            3,
            "`agents[1]`: `wether/**`",
            "`evalgate list`",
        ),
        ("suites:\n- match: []\n", 2, "`suites[0]`: no glob", "`evalgate list`"),
    ],
)
def test_a_rule_that_matches_nothing(text, line, what, near):
    ((at, said, hint),) = told(text)
    assert (at, what in said, near in hint) == (line, True, True)


@pytest.mark.parametrize(
    "text",
    [
        # a glob of several may match nothing
        "suites:\n- match: [desk.evalset.json, '*.nothing.json']\n",
        "suites:\n- match: ['**', '!weather/x.json']\n",
        "agents: [{path: a}]\n",
        "exclude: [drafts/, 'nothing/**']\n",  # only careful
    ],
)
def test_a_rule_that_matches(text):
    assert told(text) == []


def test_names_of_criteria():
    text = "compare:\n  made_up: {gating: true}\n  mine.x: {gating: true}\njudge:\n  criteria:\n    safety_v2: {}\n"
    reading = load.parse_gate_file(text, file="evalgate.yml")
    problems = lint.name_problems(_settings(reading), names=["safety_v1", "mine.x"])
    assert [(each.place.line, each.message, each.hint) for each in problems] == [
        (
            2,
            "`compare.made_up`: no suite has a criterion with this name",
            "Remove the rule, or correct its name.",
        ),
        (
            6,
            "`judge.criteria.safety_v2`: no suite has a criterion with this name",
            "Did you mean `safety_v1`?",
        ),
    ]


def test_files_that_rules_name_exactly():
    text = "suites:\n- match: [nightly.json, '*.nothing.json']\nagents: [{path: a, suites: [evals/x.json]}]\n"
    assert lint.exact_names(load.parse_gate_file(text, file="evalgate.yml").gate_file) == {
        "nightly.json",
        "evals/x.json",
    }
