"""What the base's checkout says for head's suites: renamed files, endpoints, agents that cannot
be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents import opening
from evalgate.baseline import base as baseline_base
from evalgate.config import load
from evalgate.discovery import project
from evalgate.errors import ConfigError
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    CriteriaSource,
    EvalSet,
    Invocation,
    SessionInput,
    Suite,
    Text,
)

HTTP = {
    "driver": "http",
    "url": "http://127.0.0.1:1/{session_id}",
    "request": {"q": "{text}"},
    "response": {"text": "@"},
}
COMMAND = {"driver": "command", "command": "agent"}


def side(root: Path, *, agents: list[Any], files: dict[str, list[str]]) -> Path:
    root.mkdir()
    (root / "evalgate.yml").write_text(json.dumps({"agents": agents}))
    for name, asked in files.items():
        cases = [
            {
                "eval_id": each,
                "conversation": [{"user_content": {"role": "user", "parts": [{"text": each}]}}],
            }
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
        # once only, the first that has half of it
        ({"a": "1234"}, {"b": "12", "c": "1234"}, {"b": "a"}),
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
        sets.append(project.prepare(load.load_settings({"root": str(root)}), environ={}).suites)
    expected = {
        f"{ours}.evalset.json": f"{theirs}.evalset.json" for ours, theirs in renamed.items()
    }
    assert baseline_base.renames(*sets) == expected


def test_a_file_is_followed_by_its_questions_if_its_agent_has_another_name() -> None:
    """A session names the agent; of two files with the same questions, the one of the agent."""

    def suite(name: str, agent: str) -> Suite:
        question = Content(parts=(Text(text="q"),), role="user")
        case = Case(
            case_id="one",
            conversation=(Invocation(user_content=question, final_response=None),),
            session=SessionInput(app_name=agent, user_id="u"),
        )
        return Suite(
            key=name,
            eval_set=EvalSet(eval_set_id="s", cases=(case,)),
            criteria=(),
            criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
            agent=AgentUse(driver="adk", options={"path": agent}),
        )

    assert baseline_base.renames([suite("a", "old")], [suite("b", "new")]) == {"b": "a"}
    before = [suite("a", "desk"), suite("b", "shop")]
    now = [suite("c", "shop"), suite("d", "desk")]
    assert baseline_base.renames(before, now) == {"c": "b", "d": "a"}
    # a new file of another agent, before the renamed one
    assert baseline_base.renames(before[:1], now) == {"d": "a"}


@pytest.mark.parametrize(
    ("theirs", "ours", "missing", "why"),
    [
        # running it twice would compare head with itself
        ([HTTP], [HTTP], False, "same on both sides"),
        ([HTTP], [COMMAND], False, ""),
        ([{**HTTP, "url": "http://127.0.0.1:2/"}], [HTTP], False, ""),  # two deployments
        ([{"driver": "nonsense"}], [COMMAND], False, "does not exist: nonsense"),
        ([], [COMMAND], True, "no agent"),  # nothing that could have become worse
    ],
)
def test_the_agent_of_the_base(
    tmp_path: Path, theirs: list[Any], ours: list[Any], missing: bool, why: str
) -> None:
    files = {"a.evalset.json": ["1"]}
    base = side(tmp_path / "base", agents=theirs, files=files)
    choice = load.load_settings({"root": str(side(tmp_path / "head", agents=ours, files=files))})
    suites = project.prepare(choice, environ={}).suites
    use = baseline_base.read(choice, base, suites, {}).agents["a.evalset.json"]
    assert opening.is_missing(use) is missing
    assert why in str(use.options.get("why", ""))
    assert (use.is_absent) is bool(why)


@pytest.mark.parametrize(
    ("named", "there", "path"),
    [
        ("new", "old", "old"),  # the change moves it: the base has it where its own files say
        ("old", "old", "old"),
        ("new", None, None),  # there is none yet
    ],
)
def test_the_base_of_an_agent_that_a_door_names(
    tmp_path: Path, named: str, there: str | None, path: str | None
) -> None:
    files = {"a.evalset.json": ["1"]}
    roots = [side(tmp_path / name, agents=[], files=files) for name in ("base", "head")]
    for root, folder in zip(roots, (there, named), strict=True):
        (root / (folder or "none")).mkdir()
        (root / (folder or "none") / "agent.py").write_text("root_agent = None\n" if folder else "")
    choice = load.load_settings({"root": str(roots[1]), "agent": named})
    suites = project.prepare(choice, environ={}).suites
    use = baseline_base.read(choice, roots[0], suites, {}).agents["a.evalset.json"]
    assert (opening.is_missing(use), use.options.get("path")) == (path is None, path)


def read(
    tmp_path: Path, files: dict[str, str], *, agents: list[Any] | None = None, **given: Any
) -> baseline_base.BaseProject:
    """The base with `files` beside a sound one, for a head that has a sound one alone."""
    asked = {"a.evalset.json": ["1"]}
    root = side(tmp_path / "base", agents=[COMMAND] if agents is None else agents, files=asked)
    for name, text in files.items():
        (root / name).write_text(text)
    choice = load.load_settings(
        {"root": str(side(tmp_path / "head", agents=[COMMAND], files=asked)), **given}
    )
    return baseline_base.read(choice, root, project.prepare(choice, environ={}).suites, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents: [\n  - {driver: command\n", "evalgate.yml:2:"),  # no YAML
        # a key that is not known (any more)
        ("suites: [{match: ['**'], bogus: 1}]", "suites.0.bogus"),
        ("pass_rate: 7", "`pass_rate`"),
        ("nonsense: 1\nother: 2", "unknown setting `nonsense` (and 1 more)"),
    ],
)
def test_a_gate_file_that_cannot_be_read_is_no_empty_one(
    tmp_path: Path, text: str, said: str
) -> None:
    """Taken for an empty one, a base would have no agent and the default rules."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(tmp_path, {"evalgate.yml": text})


@pytest.mark.parametrize(
    ("files", "unread", "unruled", "fault"),
    [
        ({}, set(), set(), None),
        ({"a.evalset.json": "{"}, {"a.evalset.json"}, set(), "a.evalset.json"),  # the only one
        ({"b.evalset.json": "{"}, {"b.evalset.json"}, set(), "b.evalset.json"),
        ({"test_config.json": '{"criteria": '}, set(), {"a.evalset.json"}, "test_config.json"),
        # asserts nothing
        ({"test_config.json": '{"criteria": {}}'}, set(), {"a.evalset.json"}, "test_config.json"),
        (
            {"a.evalset.json": "{", "test_config.json": "{"},
            {"a.evalset.json"},
            {"a.evalset.json"},
            "test_config.json",
        ),
    ],
)
def test_which_of_the_bases_rules_are_not_known(
    tmp_path: Path, files: dict[str, str], unread: set[str], unruled: set[str], fault: str | None
) -> None:
    rules = read(tmp_path, files).rules
    assert rules is not None
    assert (set(rules.unread), set(rules.unruled)) == (unread, unruled)
    assert {suite.key for suite in rules.suites} == {
        "a.evalset.json"
    } | unread  # its criteria may be known all the same
    places = {each.place.file for each in rules.errors if each.place}
    assert (fault in places) if fault else not places


@pytest.mark.parametrize(
    ("agents", "given", "own", "empty"),
    [
        ([COMMAND], {}, ("a.evalset.json",), False),
        ([], {}, (), False),  # its files have no agent: nothing was gated
        # its files have nothing of what is asked for
        ([COMMAND], {"grep": "nowhere there"}, (), True),
    ],
)
def test_what_the_base_gates_itself(
    tmp_path: Path, agents: list[Any], given: dict[str, Any], own: tuple[str, ...], empty: bool
) -> None:
    root = side(tmp_path / "base", agents=agents, files={"a.evalset.json": ["1"]})
    head = load.load_settings(
        {"root": str(side(tmp_path / "head", agents=[COMMAND], files={"b.evalset.json": ["2"]}))}
    )
    suites = project.prepare(head, environ={}).suites
    found = baseline_base.read(
        head.model_copy(update={"explicit_options": {**head.explicit_options, **given}}),
        root,
        suites,
        {},
    )
    gated = [
        key for key, suite in found.suites.items() if not baseline_base.is_unknown(suite.agent)
    ]
    assert tuple(gated) == own
    assert found.rules is not None
    assert found.rules.is_empty() is empty
    (root / "a.evalset.json").unlink()
    assert baseline_base.read(head, root, suites, {}).rules is None  # no evaluation file, no rules


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"a.evalset.json": "1", "b.evalset.json": "1", "c.evalset.json": "1"}),
        # only what is new: the file's rules hold for it
        ({"paths": ["a.evalset.json:2"]}, {"a.evalset.json": ""}),
        ({"paths": ["a.evalset.json:1,2"]}, {"a.evalset.json": "1"}),
        (
            {"paths": ["a.evalset.json:2", "b.evalset.json"]},
            {"a.evalset.json": "", "b.evalset.json": "1"},
        ),
        ({"grep": "^2$"}, {"a.evalset.json": "", "b.evalset.json": ""}),
        ({"paths": ["new.evalset.json"]}, {}),  # there are others, and nothing of this one
    ],
)
def test_a_selection_limits_the_bases_cases_and_not_its_rules(
    tmp_path: Path, given: dict[str, Any], asked: dict[str, str]
) -> None:
    theirs = {"a.evalset.json": ["1"], "b.evalset.json": ["1"], "c.evalset.json": ["1"]}
    ours = {"a.evalset.json": ["1", "2"], "b.evalset.json": ["1", "2"], "new.evalset.json": ["3"]}
    roots = [
        side(tmp_path / name, agents=[COMMAND], files=files)
        for name, files in (("base", theirs), ("head", ours))
    ]
    for root, threshold in zip(roots, (0.9, 0.01), strict=True):
        (root / "test_config.json").write_text(
            json.dumps({"criteria": {"response_match_score": threshold}})
        )
    choice = load.load_settings({"root": str(roots[1]), **given})
    rules = baseline_base.read(
        choice, roots[0], project.prepare(choice, environ={}).suites, {}
    ).rules
    assert rules is not None
    assert {
        each.key: "".join(case.case_id for case in each.eval_set.cases) for each in rules.suites
    } == asked
    for suite in rules.suites:
        gating = [use.threshold for use in suite.criteria if use.name == "response_match_score"]
        assert gating == [0.9]
        assert not opening.is_missing(suite.agent)
    assert rules.errors == ()  # that the base lacks what is selected is no fault of its files
    assert rules.is_empty() is not any(asked.values())


def test_criteria_that_cannot_be_read_are_said_where_only_new_cases_run(tmp_path: Path) -> None:
    files = {"a.evalset.json": ["1"]}
    root = side(tmp_path / "base", agents=[COMMAND], files=files)
    (root / "test_config.json").write_text("{")
    head = side(tmp_path / "head", agents=[COMMAND], files={"a.evalset.json": ["1", "2"]})
    choice = load.load_settings({"root": str(head), "paths": ["a.evalset.json:2"]})
    rules = baseline_base.read(choice, root, project.prepare(choice, environ={}).suites, {}).rules
    assert rules is not None
    assert rules.unruled == {"a.evalset.json"}
    assert len(rules.errors) == 1


@pytest.mark.parametrize(
    ("selection", "renamed"),
    [
        (["b.evalset.json"], True),  # by its new name
        (["."], True),
        (["{root}"], True),  # absolute: of this checkout, not of the base's
        (["{root}/b.evalset.json"], True),
        (["{root}/b.evalset.json:1,2"], True),
        (["{root}/c.evalset.json"], False),  # another file, and the old one of b is none of its own
    ],
)
def test_a_selection_follows_a_moved_file(
    tmp_path: Path, selection: list[str], renamed: bool
) -> None:
    base = side(
        tmp_path / "base",
        agents=[COMMAND],
        files={"a.evalset.json": list("1234"), "c.evalset.json": ["x"]},
    )
    # rules of the name there, and of the new one
    suites = [
        {"match": ["a.evalset.json"], "pass_rate": 0.75},
        {"match": ["b.evalset.json"], "severity": "advisory"},
    ]
    (base / "evalgate.yml").write_text(json.dumps({"agents": [COMMAND], "suites": suites}))
    head = side(
        tmp_path / "head",
        agents=[COMMAND],
        files={"b.evalset.json": list("1234"), "c.evalset.json": ["x"]},
    )
    paths = [each.format(root=head) for each in selection]
    choice = load.load_settings({"root": str(head), "paths": paths})
    found = baseline_base.read(choice, base, project.prepare(choice, environ={}).suites, {})
    assert found.rules is not None
    assert found.rules.errors == ()
    cases = {suite.key: len(suite.eval_set.cases) for suite in found.rules.suites}
    if renamed:
        assert found.renamed == {"b.evalset.json": "a.evalset.json"}
        assert cases["b.evalset.json"] == 4
        policy = found.rules.policy
        assert (dict(policy.suite_pass_rate), policy.advisory) == ({"b.evalset.json": 0.75}, set())
    else:
        assert (found.renamed, cases) == ({}, {"c.evalset.json": 1})
