"""Equal fingerprints mean equal agents, whatever driver runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evalgate import reports
from evalgate.config import load
from evalgate.discovery import agents
from evalgate.discovery.agents import AgentCode, apart_of
from evalgate.gate import earlier, run
from evalgate.model import AgentUse
from evalgate.results import shards

COMMAND = AgentUse(driver="command", options={"command": ["python", "agent.py"]})
PYTHON = AgentUse(driver="python", options={"call": "agents.desk:answer"})
DOTTED = AgentUse(driver="adk", options={"path": "agents.desk"})
FOLDER = AgentUse(driver="adk", options={"path": "agents/desk"})
REPLAY = AgentUse(driver="replay", options={"path": "recorded"})
BESIDE = AgentUse(driver="replay", options={})
HTTP = AgentUse(driver="http", options={"url": "http://x.example"})


def checkout(root: Path) -> Path:
    (root / "agents/desk").mkdir(parents=True)
    (root / "agents/desk/agent.py").write_text("answer = 1")
    (root / "shared.py").write_text("x = 1")
    (root / "recorded").mkdir()
    (root / "recorded/a.session.json").write_text("{}")
    return root


@pytest.mark.parametrize(
    ("use", "name", "changes"),
    [
        (COMMAND, "agents/desk/agent.py", True),
        (PYTHON, "agents/desk/agent.py", True),
        (DOTTED, "agents/desk/agent.py", True),  # a dotted path is no folder on disk
        (FOLDER, "shared.py", True),  # an agent may import it
        (FOLDER, "evalgate-report/results.json", False),
        (FOLDER, "tool-cassettes/x.json", False),  # they are told apart by themselves
        (FOLDER, "verdicts.jsonl", False),  # what a judge said
        (REPLAY, "shared.py", False),  # only recordings answer
        (REPLAY, "recorded/a.session.json", True),
        (BESIDE, "recorded/a.session.json", True),
        (BESIDE, ".adk/eval_history/b.evalset_result.json", True),
    ],
)
def test_what_makes_another_agent(tmp_path: Path, use: AgentUse, name: str, changes: bool) -> None:
    root = checkout(tmp_path)
    (root / "evalgate.yml").write_text("judge: {record: verdicts.jsonl}")
    apart = apart_of(load.load_settings({"root": str(root)}))
    before = AgentCode(root, apart=apart).fingerprint(use)
    assert before == AgentCode(root, apart=apart).fingerprint(use) != ""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("something else")
    assert (AgentCode(root, apart=apart).fingerprint(use) != before) is changes


def test_its_files_are_named_and_of_too_many_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = checkout(tmp_path)
    every = AgentCode(root).files(FOLDER)
    assert {"agents/desk/agent.py", "shared.py"} <= every.keys()
    assert {len(each) for each in every.values()} == {12}
    (root / "shared.py").write_text("something else")
    now = AgentCode(root).files(FOLDER)
    assert {path for path in every if every[path] != now[path]} == {"shared.py"}
    monkeypatch.setattr(agents, "MOST_FILES", len(every) - 1)
    own = AgentCode(root).files(FOLDER)
    assert own
    assert all(path.startswith("agents/desk/") for path in own)
    monkeypatch.setattr(agents, "MOST_FILES", 0)
    assert AgentCode(root).files(FOLDER) == {}


@pytest.mark.parametrize(
    ("files", "changes"),
    [
        # an earlier part, or a run with another `--output`
        ({"parts/1/journal.jsonl": '{"journal":1}\n', "parts/1/junit.xml": "<x/>", "parts/1/base.json": "{}"}, False),
        ({"parts/1/results.json": '{"schema_version":2}', "parts/1/report.html": "<p>"}, False),
        ({"journal.jsonl": '{"journal":1}\n', "junit.xml": "<x/>"}, False),  # `--output .`
        ({"agents/desk/journal.jsonl": '{"journal":1}\n'}, False),
        # nothing hides beside a journal
        ({"parts/1/journal.jsonl": '{"journal":1}\n', "parts/1/more.py": "x = 1"}, True),
        ({"parts/1/journal.jsonl": '{"journal":1}\n', "parts/1/below/results.json": "[1]"}, True),
        # files of these names that are not ours
        ({"parts/1/results.json": '{"answers": 1}', "parts/1/report.html": "<p>"}, True),
        ({"parts/1/journal.jsonl": '{"day": 1}'}, True),
    ],
)
def test_what_other_runs_wrote_is_no_part_of_the_agent(tmp_path: Path, files: dict[str, str], changes: bool) -> None:
    root = checkout(tmp_path)
    before = AgentCode(root).fingerprint(FOLDER)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert (AgentCode(root).fingerprint(FOLDER) != before) is changes


def test_all_that_runs_write_is_known() -> None:
    names = {*earlier.JOURNALS, run.RESULTS, run.BASE_RESULTS, shards.DURATIONS}
    assert names | {renderer.file_name for renderer in reports.RENDERERS.values()} == agents.REPORTS


def test_of_an_agent_behind_a_url_nothing_is_known(tmp_path: Path) -> None:
    assert AgentCode(checkout(tmp_path)).fingerprint(HTTP) == ""


def test_it_is_the_same_in_another_place(tmp_path: Path) -> None:
    prints = [AgentCode(checkout(tmp_path / name)).fingerprint(FOLDER) for name in ("one", "two")]
    assert prints[0] == prints[1]


def test_a_checkout_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    plain: Callable[[Path], bytes] = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    code = AgentCode(checkout(tmp_path))
    for use in (FOLDER, COMMAND, PYTHON):
        code.fingerprint(use)
    assert len(reads) == len(set(reads))
