"""What was typed wins over evalgate.yml, which wins over the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate import agents
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError


def chosen(root: Path, gate_file: str = "", **given: object) -> Settings:
    if gate_file:
        (root / "evalgate.yml").write_text(gate_file)
    return load.load_settings({"root": str(root), **given})


def test_precedence(tmp_path: Path) -> None:
    choice = chosen(tmp_path, "runs: 3\nretries: 1\n", runs="5")
    assert (str(choice.runs), choice.retries, choice.seed) == ("5", 1, 0)


def test_the_gate_file_may_lie_in_dot_github(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/evalgate.yaml").write_text("runs: 4\n")
    assert chosen(tmp_path).runs == 4


def test_two_gate_files_are_told(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/evalgate.yml").write_text("runs: 4\n")
    choice = chosen(tmp_path, "runs: 3\n")
    (problem,) = choice.problems
    assert problem.place is not None
    assert (problem.code, problem.place.file) == ("unused-gate-file", ".github/evalgate.yml")
    assert str(choice.runs) == "3"
    assert chosen(tmp_path, config=".github/evalgate.yml").problems == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_the_gate_file_is_read_as_evaluation_files_are(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "evalgate.yml").write_bytes("runs: 4  # caf\u00e9\n".encode(encoding))
    assert chosen(tmp_path).runs == 4


@pytest.mark.parametrize("data", ["runs: 4  # caf\u00e9\n".encode("latin-1"), b"\xff\xfe\x00"])
def test_a_gate_file_that_is_no_text_says_how_to_save_it(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "evalgate.yml").write_bytes(data)
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        chosen(tmp_path)
    assert "UTF-8" in caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.file == "evalgate.yml"


@pytest.mark.parametrize(
    ("text", "driver", "options"),
    [
        ("agents/weather", "adk", {"path": "agents/weather"}),
        ("adk:agents/weather", "adk", {"path": "agents/weather"}),
        ("python:pkg.mod:answer", "python", {"call": "pkg.mod:answer"}),
        # below an import folder, as `evalgate init` names other agents
        ("python:app/api/mod:answer", "python", {"call": "mod:answer", "path": "app/api"}),
        ("command:node agent.mjs --fast", "command", {"command": "node agent.mjs --fast"}),
        ("http:http://127.0.0.1:8000", "http", {"url": "http://127.0.0.1:8000"}),
        ("replay:recorded", "replay", {"path": "recorded"}),
        ("C:/agents/weather", "adk", {"path": "C:/agents/weather"}),  # a drive is no driver
    ],
)
def test_the_agent_of_every_suite(
    tmp_path: Path, text: str, driver: str, options: dict[str, str]
) -> None:
    (rule,) = chosen(tmp_path, "agents: [{path: other}]\n", agent=text).gate_file.agents
    use = agents.rule_use(rule)
    assert (use.driver, use.options, rule.suites) == (driver, options, ["**"])
    assert text.endswith(agents.DRIVERS[driver].short_form(options))


@pytest.mark.parametrize(
    ("folder", "given", "command"),
    [
        ("", {}, "evalgate run"),
        ("services/shop", {"paths": "evals"}, "evalgate run evals --root services/shop"),
        # what is of this machine, or of a workflow alone, stays here
        ("", {"output": "o", "cache": "c", "comment": "off", "runs": "2"}, "evalgate run --runs 2"),
        ("", {"strict": "true", "skip_judged": "false"}, "evalgate run --no-skip-judged --strict"),
        # words with blanks stay words
        ("", {"agent": "command:node a.mjs"}, "evalgate run --agent 'command:node a.mjs'"),
        ("a b", {"env": "A, B"}, "evalgate run --root 'a b' --env A --env B"),
    ],
)
def test_a_run_can_be_typed_at_a_desk(
    tmp_path: Path, folder: str, given: dict[str, str], command: str
) -> None:
    assert load.render_command(chosen(tmp_path, **given), folder=folder) == command


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"runs": "often"}, "`runs`: must be a valid integer, found 'often'"),
        ({"runs": "2+3"}, "what fails is rerun by itself: write `runs: 2`"),
        ({"no_such": "1"}, "`no-such`: unknown key"),
        ({"runs": "1001"}, "`runs`: must be less than or equal to 1000"),
        ({"budget": "3"}, "`budget`: limits need names: `agent_calls`, `tokens` and `usd`, as in"),
        ({"budget": "tokens=1,5"}, "limits need names: `agent_calls`, `tokens` and `usd`"),
        (
            {"budget": "calls=3"},
            "`budget.calls`: unknown key, found '3'",
        ),
        (
            {"budget": "usd=0, tokens=many"},
            "`budget.tokens`: must be a valid integer, found 'many'",
        ),
        ({"budget": "usd=0"}, "`budget.usd`: must be greater than 0, found '0'"),
        ({"budget": "usd"}, "limits need names"),
        ({"fail_on": "red"}, "`fail-on`"),
        ({"base": ""}, "`base` is empty"),
        ({"config": "missing.yml"}, "does not exist"),
        ({"env": "GITHUB_TOKEN"}, "never passed to an agent"),
        ({"env": "OK, ACTIONS_RUNTIME_TOKEN"}, "ACTIONS_RUNTIME_TOKEN"),
    ],
)
def test_what_cannot_be(
    tmp_path: Path, given: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")  # at home nothing belongs to a job
    with pytest.raises(ConfigError) as caught:
        chosen(tmp_path, **given)
    assert words in f"{caught.value.message} {caught.value.problems}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budget: 3", "`budget`: limits need names: `agent_calls`, `tokens` and `usd`"),
        ("budget: {calls: 3}", "`budget.calls`: unknown key, found 3"),
        ("budget: {usd: -1}", "`budget.usd`: must be greater than 0, found -1"),
        ("runs: {start: 2, mor: 3}", "write `runs: 2`"),
        ("runs: true", "`runs`: must be a valid integer"),
        ("runs: 0", "`runs`: must be greater than or equal to 1, found 0"),
    ],
)
def test_what_a_gate_file_cannot_say(tmp_path: Path, line: str, said: str) -> None:
    (problem,) = chosen(tmp_path, line).problems
    assert said in problem.message


def test_a_root_that_is_no_folder() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load.load_settings({"root": "no/such/folder"})
