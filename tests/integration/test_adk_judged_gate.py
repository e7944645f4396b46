"""A gate with judges as CI runs it, without internet: a real ADK agent, real clients, servers that are not ours.

The agent's model and its four judges are Gemini through google-genai; `llmock` and `aimock` stand for Gemini, fail as
they are told, and llmock says what it thinks of our retries.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import aimock as mock
from builders import judged_repository as repository
from builders.judged_repository import AGENT_MODEL, HALLUCINATION_MODEL, INVALID, JUDGES, MATCH_MODEL, SAFETY_MODEL

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
JUDGED = ("final_response_match_v2", "rubric_based_final_response_quality_v1", "hallucinations_v1", "safety_v1")
SERIAL = ("--concurrency", "1", "--retries", "0")


@pytest.fixture(scope="module")
def adk() -> str:
    named = Path(os.environ.get("EVALGATE_TEST_ADK", ROOT / ".venv-adk"))
    python = named / "bin" / "python" if named.is_dir() else named
    if not python.exists():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    return str(python)


def scores(results: dict[str, Any]) -> dict[str, set[float | str]]:
    """By criterion, what its grades say: numbers, or reasons."""
    found: dict[str, set[float | str]] = {}
    for suite in results["suites"]:
        for case in suite["cases"]:
            for trial in case["trials"]:
                for name, grade in trial["grades"].items():
                    found.setdefault(name, set()).add(grade["reason"] if "reason" in grade else grade["score"])
    return found


def failures(results: dict[str, Any]) -> Counter[str]:
    """How the agent's trials failed."""
    trials = [trial for suite in results["suites"] for case in suite["cases"] for trial in case["trials"]]
    return Counter(kind for trial in trials if (kind := trial["outcome"]["kind"]) != "transcript")


# --- llmock ---------------------------------------------------------------------------------------


def script(llmock: Any, *faults: Any, cities: Sequence[str] = repository.CITIES, **said: str) -> None:
    """Faults come first; then the agent looks the weather up and tells it, case after case, and judges say what is
    good, or what `said` has for their models."""
    from llmock.scenarios import Match, Reply, ToolCall

    llmock.add(*faults)
    for model, text in {**repository.SAID, **said}.items():
        llmock.add(Reply(text=text, times=None, match=Match(model=model)))
    for city in cities:
        called = ToolCall("look_up_weather", {"city": city})
        llmock.add(Reply(tool_calls=(called,), match=Match(model=AGENT_MODEL)))
        llmock.add(Reply(text=repository.ANSWER, match=Match(model=AGENT_MODEL)))


def fail(status: int, model: str, *, times: int | None = None, retry_after: float | None = None) -> Any:
    from llmock.scenarios import Fail, Match

    return Fail(status, times=times, retry_after=retry_after, match=Match(model=model))


def verdict_on_judging(llmock: Any) -> Any:
    """llmock's verdict on our client; the agent's retries are its author's business."""
    from llmock.verdict import judge

    return judge(record for record in llmock.requests if record.model in JUDGES)


def test_green_without_internet_and_again_without_a_call(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock)
    root = repository.write(tmp_path, python=adk)
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in (*JUDGED, "tool_trajectory_avg_score"))
    uses = {use["criterion"]: use for use in results["judges"]}
    assert set(uses) == set(JUDGED)
    assert uses["final_response_match_v2"]["calls"] == 3 * 3  # three of five samples agree: nobody asks the others
    assert all(use["cost_usd"] > 0 and use["unpriced"] == 0 for use in uses.values())
    assert f"judge: {sum(use['calls'] for use in uses.values())} calls" in said
    asked = Counter(record.model for record in llmock.requests)
    assert asked[AGENT_MODEL] == 6
    verdict_on_judging(llmock).assert_ok(strict=True)

    script(llmock)
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 0, said
    again = Counter(record.model for record in llmock.requests)
    assert {model: again[model] - asked[model] for model in JUDGES} == dict.fromkeys(JUDGES, 0)
    assert all(use["calls"] == 0 and use["cached"] for use in results["judges"])


def test_a_storm_of_429_then_recovery_is_green(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock, *(fail(429, model, times=2, retry_after=0.3) for model in JUDGES))
    root = repository.write(tmp_path, python=adk, samples=1)  # equal requests would pass for repeats of one call
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in JUDGED)
    assert sum(use["retries"] for use in results["judges"]) == 2 * len(JUDGES)
    verdict = verdict_on_judging(llmock)
    assert verdict.faults == 2 * len(JUDGES)
    verdict.assert_ok(strict=True)


def test_judges_that_stay_down_are_neither_red_nor_green(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock, *(fail(500, model) for model in JUDGES))
    root = repository.write(tmp_path, python=adk, samples=1, judge="{deadline: 4}")
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 3, said
    assert results["verdict"]["kind"] == "not_measured"
    found = scores(results)
    assert all(found[name] == {"judge_unavailable"} for name in JUDGED)
    assert found["tool_trajectory_avg_score"] == {1.0}  # what needs no judge was measured all the same
    assert "run again later" in said
    assert failures(results) == {}
    assert all(set(use["failures"]) <= {"server_error", "timeout"} and use["calls"] == 0 for use in results["judges"])
    verdict_on_judging(llmock).assert_ok()


def test_what_can_be_mended_resumes_without_asking_the_agent_again(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock, fail(500, SAFETY_MODEL))
    root = repository.write(tmp_path, python=adk, samples=1, judge="{deadline: 12}")
    assert repository.gate(root, llmock.url + "/gemini", *SERIAL)[0] == 3
    before = Counter(record.model for record in llmock.requests)
    llmock.reset()
    script(llmock)
    code, said, _ = repository.gate(root, llmock.url + "/gemini", *SERIAL, "--resume")
    assert code == 0, said
    after = Counter(record.model for record in llmock.requests)
    assert before[AGENT_MODEL] == 6
    assert set(after) == {SAFETY_MODEL}  # all else was measured, and kept


def test_an_outage_does_not_hide_a_failure(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock, fail(500, HALLUCINATION_MODEL), **{MATCH_MODEL: INVALID})
    root = repository.write(tmp_path, python=adk, samples=1, judge="{deadline: 4}")
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 1, said
    assert results["verdict"]["kind"] == "fail"
    found = scores(results)
    assert (found["final_response_match_v2"], found["hallucinations_v1"]) == ({0.0}, {"judge_unavailable"})
    assert "Another weather." in json.dumps(results)  # the judge's reasons are kept


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limited"), (503, "unreachable"), (403, "model_error")])
def test_an_agent_whose_model_fails_is_not_measured(
    status: int, kind: str, adk: str, tmp_path: Path, llmock: Any
) -> None:
    script(llmock, fail(status, AGENT_MODEL, retry_after=0.1))
    root = repository.write(tmp_path, python=adk, samples=1)
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 3, said
    assert failures(results) == {kind: 3}
    assert all(reasons == {"agent_failed"} for reasons in scores(results).values())
    assert {record.model for record in llmock.requests} == {AGENT_MODEL}  # nobody judges what did not happen


def test_an_agents_429_that_passes_is_green(adk: str, tmp_path: Path, llmock: Any) -> None:
    script(llmock, fail(429, AGENT_MODEL, times=2, retry_after=0.5))  # as often as its own client tries
    root = repository.write(tmp_path, python=adk, samples=1)
    code, said, results = repository.gate(root, llmock.url + "/gemini", "--concurrency", "1", "--retries", "2")
    assert code == 0, said
    assert "next try in" in said
    attempts = [case["trials"][0]["attempts"] for case in results["suites"][0]["cases"]]
    assert attempts == [2, 1, 1]


def test_after_an_agents_429_nobody_of_its_provider_asks_before_it_may(adk: str, tmp_path: Path, llmock: Any) -> None:
    """The first case is lost, and its provider asks for three seconds: the next trial waits for them."""
    script(llmock, fail(429, AGENT_MODEL, times=2, retry_after=3), cities=repository.CITIES[1:])
    code, said, results = repository.gate(
        repository.write(tmp_path, python=adk, samples=1), llmock.url + "/gemini", *SERIAL
    )
    assert code == 3, said
    assert failures(results) == {"rate_limited": 1}
    refused, first = llmock.requests[1], llmock.requests[2]
    assert (refused.status, first.status, first.model) == (429, 200, AGENT_MODEL)
    assert first.started_at - refused.ended_at >= 2.9


# --- aimock ---------------------------------------------------------------------------------------


def fixtures() -> list[dict[str, Any]]:
    """Each of our questions is known by words of its own; the agent's by the tool's answer, or its absence."""
    judged = [{"match": {"model": model}, "response": {"content": text}} for model, text in repository.SAID.items()]
    told = {"match": {"model": AGENT_MODEL, "hasToolResult": True}, "response": {"content": repository.ANSWER}}
    looked_up = [
        {
            "match": {"model": AGENT_MODEL, "userMessage": f"in {city}?", "hasToolResult": False},
            "response": {"toolCalls": [{"name": "look_up_weather", "arguments": json.dumps({"city": city})}]},
        }
        for city in repository.CITIES
    ]
    return [*judged, told, *looked_up]


@pytest.fixture(scope="module", name="aimock")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mock.running(tmp_path_factory.mktemp("aimock"), fixtures()) as url:
        yield url


def test_many_at_once_on_another_server(adk: str, tmp_path: Path, aimock: str) -> None:
    mock.set_chaos(aimock)
    code, said, results = repository.gate(repository.write(tmp_path, python=adk), aimock)
    assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in (*JUDGED, "tool_trajectory_avg_score"))


def test_faults_by_chance_on_every_side_end_green_or_unmeasured(adk: str, tmp_path: Path, aimock: str) -> None:
    """One call in six fails, the agent's as well as the judges': whatever comes of it, nothing is judged wrongly."""
    mock.set_chaos(aimock, dropRate=0.08, rateLimitRate=0.08)
    root = repository.write(tmp_path, python=adk)
    try:
        code, said, results = repository.gate(root, aimock, "--retries", "4")
    finally:
        mock.set_chaos(aimock)
    assert code in (0, 3), said
    found = scores(results)
    assert all(found[name] <= {1.0, "judge_unavailable", "agent_failed"} for name in JUDGED)
    assert code == (0 if all(reasons == {1.0} for name, reasons in found.items() if name in JUDGED) else 3)
