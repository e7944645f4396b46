"""`evalgate ces run`: the platform runs and judges, evalgate gates on its outcomes and says where
it judges otherwise. Against a local double of the API."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import ces_double, forked_command, google_account
from builders.ces_double import APP, CesDouble

from evalgate import agents
from evalgate.agents.base import AgentFailed, AgentLimits, AgentSetting
from evalgate.model import AgentUse, Case, FailureKind, Text, Transcript, TrialKey
from evalgate.results import file
from evalgate.system.python_env import InstallSetup
from evalgate.wings.ces import cases, live, read

pytestmark = pytest.mark.integration

KEY = TrialKey(suite="s", case_id="greets")


def turn(user: str, answer: str) -> dict[str, Any]:
    said = {"agentResponse": {"chunks": [{"text": answer}]}, "comparisonType": "EQUALS"}
    return {"steps": [{"userInput": {"text": user}}, {"expectation": said}]}


GREETS = {
    "displayName": "greets",
    "golden": {"turns": [turn("hello", "Good morning"), turn("bye", "Good night")]},
}
ASKS = {"displayName": "asks", "scenario": {"task": "ask for a loan"}}


@pytest.fixture
def double() -> Iterator[CesDouble]:
    with ces_double.running() as made:
        made.token = "a-token"
        made.put(f"{APP}/evaluations/greets", GREETS)
        made.put(f"{APP}/evaluations/asks", ASKS)
        for version in ("v-1", "v-2"):
            made.put(f"{APP}/versions/{version}", {"displayName": version})
        yield made


def case_of(*raws: dict[str, Any], app: dict[str, Any] | None = None) -> Case:
    texts = {f"evaluations/{raw['displayName']}.json": json.dumps(raw) for raw in raws}
    library = read.library({**texts, **({"app.json": json.dumps(app)} if app else {})})
    sets, problems = cases.eval_sets(library, {})
    assert not problems
    (eval_set,) = sets.values()
    return eval_set.cases[0]


@pytest.fixture
def play(double: CesDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays a trial of a case."""
    monkeypatch.setattr(live, "FIRST_PAUSE_S", 0.01)
    account = google_account.written(tmp_path, f"{double.url}/token")
    environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(account)}
    world = InstallSetup(environment=environment, cache=str(tmp_path / "cache"), log=print)
    (tmp_path / "repository/app").mkdir(parents=True)
    (tmp_path / "repository/app/app.json").write_text("{}")

    def make(case: Case, *, limits: AgentLimits | None = None, **options: Any) -> Transcript:
        raw = {"app": APP, "endpoint": double.url, "on_platform": True, **options}
        use = AgentUse(driver="ces", options=raw)
        root = str(tmp_path / "repository")
        setting = AgentSetting(root=root, world=world, limits=limits or AgentLimits())
        agent = agents.DRIVERS["ces"].open(agents.options_of(use), setting)
        try:
            played = agent.play(case, KEY)
        finally:
            agent.close()
        assert played is not None
        return played

    return make


def texts(transcript: Transcript) -> list[tuple[str, str]]:
    return [
        tuple(
            "".join(part.text for part in content.parts if isinstance(part, Text))
            for content in (each.user_content, each.final_response)
            if content is not None
        )  # type: ignore[misc]
        for each in transcript.invocations
    ]


def test_a_golden_whose_turns_have_conversations_of_their_own(double: CesDouble, play: Any) -> None:
    """STABLE: what comes before in a conversation was given to the agent, not said by it."""
    double.words = lambda title, number: f"answer {number}"
    transcript = play(case_of(GREETS), version="v-2")
    assert texts(transcript) == [("hello", "answer 1"), ("bye", "answer 2")]
    assert transcript.isolated
    assert transcript.platform["evaluationStatus"] == "PASS"
    (asked,) = [each for each in double.asked_for("POST") if "runEvaluation" in each.path]
    assert asked.body == {
        "evaluations": [f"{APP}/evaluations/greets"],
        "runCount": 1,
        "goldenRunMethod": "STABLE",
        "appVersion": f"{APP}/versions/v-2",
        "evaluationRunCachingSettings": {"runCachingMode": "FORCE_RUN"},  # no copy of a result
    }
    assert not double.named("deployments")


def test_a_golden_in_one_conversation_and_a_scenario(double: CesDouble, play: Any) -> None:
    naive = {"evaluationSettings": {"goldenRunMethod": "NAIVE"}}
    transcript = play(case_of(GREETS, app=naive))
    assert texts(transcript) == [("hello", "Good morning"), ("bye", "Good night")]
    assert not transcript.isolated
    double.words = lambda title, number: "here it is"
    transcript = play(case_of(ASKS))
    assert texts(transcript) == [("ask for a loan", "here it is")]


def test_a_result_without_its_conversation(double: CesDouble, play: Any) -> None:
    double.keeps_conversations = False
    transcript = play(case_of(GREETS))
    assert (transcript.invocations, transcript.platform["evaluationStatus"]) == ((), "PASS")


def test_the_newest_result_is_found_among_many(double: CesDouble, play: Any) -> None:
    for number in range(10):  # pages of three
        name = f"{APP}/evaluations/greets/results/of-{number:04}"
        old = {"executionState": "COMPLETED", "evaluationStatus": "FAIL"}
        double.put(name, {"displayName": "old", "evaluationRun": f"{APP}/evaluationRuns/x", **old})
    assert play(case_of(GREETS)).platform["evaluationStatus"] == "PASS"


# the state of the result, the kind of error, of the failure: none is a crash of the agent
UNFINISHED = [
    ("ERROR", "RUNTIME_FAILURE", FailureKind.UNREACHABLE),
    ("ERROR", "QUOTA_EXHAUSTED", FailureKind.RATE_LIMITED),
    ("ERROR", "USER_SIMULATION_FAILURE", FailureKind.SIMULATOR),
    ("ERROR", "METRIC_CALCULATION_FAILURE", FailureKind.UNREACHABLE),
    ("CANCELLED", "", FailureKind.UNREACHABLE),
    ("RUNNING", "", FailureKind.UNREACHABLE),
]


@pytest.mark.parametrize(("state", "error", "kind"), UNFINISHED)
def test_what_the_platform_did_not_finish(
    double: CesDouble, play: Any, state: str, error: str, kind: FailureKind
) -> None:
    double.outcomes["greets"] = state
    double.error = error or double.error
    with pytest.raises(AgentFailed, match=f"did not finish it: {state}") as failed:
        play(case_of(GREETS))
    assert failed.value.failure.kind is kind


def test_a_run_that_takes_too_long_is_cancelled(double: CesDouble, play: Any) -> None:
    double.polls = 1000
    with pytest.raises(AgentFailed, match="is not done yet") as failed:
        play(case_of(GREETS), limits=AgentLimits(case_timeout_s=0.2))
    assert failed.value.failure.kind is FailureKind.UNREACHABLE
    (operation,) = double.operations
    assert [each.path for each in double.asked if each.path.endswith(":cancel")] == [
        f"/v1beta/{operation}:cancel"
    ]


def test_an_evaluation_that_differs_from_the_file_is_not_run(double: CesDouble, play: Any) -> None:
    other = {**GREETS, "golden": {"turns": [turn("hello", "Go away")]}}
    with pytest.raises(
        AgentFailed, match=r"differs from the file in golden\.turns: `evalgate ces push`"
    ):
        play(case_of(other))
    with pytest.raises(AgentFailed, match="'new' of the app is missing"):
        play(case_of({**GREETS, "displayName": "new"}))
    assert not [each for each in double.asked if "runEvaluation" in each.path]
    # what decides nothing may differ
    assert play(case_of({**GREETS, "tags": ["P1"]})).platform


def test_an_app_of_the_run_gets_the_evaluations_of_head(double: CesDouble, play: Any) -> None:
    before = set(double.resources)
    transcript = play(case_of(GREETS), path="app")
    assert transcript.platform["evaluationStatus"] == "PASS"
    assert set(double.resources) == before  # deleted with the app
    (asked,) = [each for each in double.asked_for("POST") if each.path.endswith("/evaluations")]
    assert "/apps/evalgate-" in asked.path


# --- the gate -------------------------------------------------------------------------------------


@pytest.fixture
def repository(double: CesDouble, tmp_path: Path) -> Path:
    """Its base is version v-1 of the app, its head v-2."""
    root = tmp_path / "repository"
    for raw in (GREETS, ASKS):
        file = root / f"evaluations/{raw['displayName']}/{raw['displayName']}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**raw, "name": f"{APP}/evaluations/{raw['displayName']}"}))
    (root / "app.json").write_text(json.dumps({"name": APP, "evaluationSettings": {}}))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(root))

    def commit(version: str) -> None:
        rule = f"{{driver: ces, app: {APP}, version: {version}, endpoint: '{double.url}'}}"
        (root / "evalgate.yml").write_text(f"agents: [{rule}]\n")
        for args in (("add", "."), ("commit", "-qm", version)):
            subprocess.run([*git, *args], check=True, capture_output=True)

    subprocess.run([*git, "init", "-q", "-b", "main"], check=True, capture_output=True)
    commit("v-1")
    subprocess.run([*git, "checkout", "-qb", "change"], check=True, capture_output=True)
    commit("v-2")
    return root


def gate(repository: Path, double: CesDouble, *more: str) -> tuple[int, str, str]:
    """Exit code, output, the table."""
    account = google_account.written(repository.parent, f"{double.url}/token")
    environment = {**os.environ, "GOOGLE_APPLICATION_CREDENTIALS": str(account), "GITHUB_ACTIONS": "",
                   "XDG_CACHE_HOME": str(repository.parent / "cache")}  # fmt: skip
    args = ["ces", "run", "--skip-judged", "--env", "GOOGLE_APPLICATION_CREDENTIALS", *more]
    done = forked_command.run(args, cwd=repository, env=environment, timeout=120)
    table = repository / "evalgate-report/ces-agreement.md"
    return done.returncode, done.stdout + done.stderr, table.read_text() if table.exists() else ""


# outcomes by version, exit code, what is said
GATED: list[tuple[dict[str, str], int, str]] = [
    ({}, 0, "PASS"),
    ({"greets@v-2": "FAIL"}, 1, "ces_platform"),  # every rerun says so
    ({"greets@v-1": "FAIL", "greets@v-2": "FAIL"}, 1, "ces_platform"),
    # measured on the base alone: nobody knows whether it became worse
    ({"greets@v-2": "ERROR"}, 3, "did not finish it: ERROR: it broke"),
    ({"greets@v-2": "SKIPPED"}, 3, "the platform skipped it"),
    ({"greets@v-2": "RUNNING"}, 3, "did not finish it: RUNNING"),
    ({"greets@v-1": "ERROR"}, 3, "1 case lacks a score"),
]


@pytest.mark.parametrize(("outcomes", "status", "said"), GATED, ids=range(len(GATED)))
def test_the_gate(
    double: CesDouble, repository: Path, outcomes: dict[str, str], status: int, said: str
) -> None:
    double.outcomes |= outcomes
    code, output, _ = gate(repository, double, "--base", "main", "--retries", "0")
    assert (code, said in output) == (status, True), output
    versions = {
        each.body["appVersion"].rpartition("/")[2]
        for each in double.asked_for("POST")
        if each.path.endswith(":runEvaluation")
    }
    assert versions == {"v-1", "v-2"}


def test_what_no_platform_runs_is_not_measured(double: CesDouble, repository: Path) -> None:
    """An evaluation set of ADK beside the evaluations, and an agent that is no app."""
    said = {"parts": [{"text": "hello"}]}
    turns = [{"user_content": said, "final_response": said}]
    evalset = {"eval_set_id": "s", "eval_cases": [{"eval_id": "adk", "conversation": turns}]}
    (repository / "s.evalset.json").write_text(json.dumps(evalset))
    (repository / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')
    code, output, _ = gate(repository, double)
    assert (code, "the platform runs CES evaluations only" in output) == (3, True), output
    assert not [each for each in double.asked if each.path.endswith(":runSession")]
    (repository / "evalgate.yml").write_text("agents: [{driver: command, command: 'true'}]\n")
    code, output, _ = gate(repository, double, "evaluations/greets")
    assert (code, "its agent is not one of the driver `ces`" in output) == (2, True), output


def test_where_evalgate_judges_otherwise(double: CesDouble, repository: Path) -> None:
    """The platform passes an answer that is another than the expected one."""
    double.words = lambda title, number: "Go | away" if number == 2 else ""
    code, output, table = gate(repository, double)
    assert code == 0, output
    assert table.splitlines()[3].startswith("| evaluations | 0 | 0 | 1 | 0 | 1 |")
    assert "| calls, transfers, variables, literal answers | 1 | 0 | 1 | 0 | 0 | 50% |" in table
    assert "only CES passes" in table.splitlines()[-1]
    assert "turn 2: says" in table
    assert table.splitlines()[1] in output
    stored = file.read_results(repository / "evalgate-report/results.json", of="")
    transcripts = [stored.run.transcripts(trial.key) for trial in stored.run.trials]
    assert [each.platform["evaluationStatus"] for each in transcripts] == ["PASS", "PASS"]
