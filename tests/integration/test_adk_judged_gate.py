"""A gate with judges as CI runs it, without internet: a real ADK agent, real clients, servers that
are not ours.

The agent's model and its four judges are Gemini through google-genai; `llmock` and `aimock` stand
for Gemini, fail as they are told, and llmock says what it thinks of our retries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import aimock as mock, judged_repository as repository
from builders.judged_repository import AGENT_MODEL, HALLUCINATION_MODEL, JUDGES, SAFETY_MODEL

from tests.integration.agents.line_client import adk_python, forked_adk

pytestmark = pytest.mark.integration

JUDGED = (
    "final_response_match_v2",
    "rubric_based_final_response_quality_v1",
    "hallucinations_v1",
    "safety_v1",
)
SERIAL = ("--concurrency", "1", "--retries", "0")


@pytest.fixture(scope="module")
def adk() -> str:
    return forked_adk("new")


def scores(results: dict[str, Any]) -> dict[str, set[float | str]]:
    """By criterion, what its grades say: numbers, or reasons."""
    found: dict[str, set[float | str]] = {}
    for suite in results["suites"]:
        for case in suite["cases"]:
            for trial in case["trials"]:
                for name, grade in trial["grades"].items():
                    found.setdefault(name, set()).add(
                        grade["reason"] if "reason" in grade else grade["value"]
                    )
    return found


def failures(results: dict[str, Any]) -> Counter[str]:
    """How the agent's trials failed."""
    trials = [
        trial for suite in results["suites"] for case in suite["cases"] for trial in case["trials"]
    ]
    return Counter(kind for trial in trials if (kind := trial["outcome"]["kind"]) != "transcript")


# --- llmock ---------------------------------------------------------------------------------------


def script(
    llmock: Any, *faults: Any, cities: Sequence[str] = repository.CITIES, **said: str
) -> None:
    """Faults come first; then the agent looks the weather up and tells it, case after case, and
    judges say what is good, or what `said` has for their models."""
    from llmock.scenarios import Match, Reply, ToolCall

    llmock.add(*faults)
    for model, text in {**repository.SAID, **said}.items():
        llmock.add(Reply(text=text, times=None, match=Match(model=model)))
    for city in cities:
        called = ToolCall("look_up_weather", {"city": city})
        llmock.add(Reply(tool_calls=(called,), match=Match(model=AGENT_MODEL)))
        llmock.add(Reply(text=repository.ANSWER, match=Match(model=AGENT_MODEL)))


def fail(
    status: int, model: str, *, times: int | None = None, retry_after: float | None = None
) -> Any:
    from llmock.scenarios import Fail, Match

    return Fail(status, times=times, retry_after=retry_after, match=Match(model=model))


def verdict_on_judging(llmock: Any) -> Any:
    """llmock's verdict on our client; the agent's retries are its author's business."""
    from llmock.verdict import judge

    return judge(record for record in llmock.requests if record.model in JUDGES)


def test_green_without_internet_and_again_without_a_call(tmp_path: Path, llmock: Any) -> None:
    script(llmock)
    root = repository.write(tmp_path, python=adk_python("new"))  # what it loads, too, asks nobody
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in (*JUDGED, "tool_trajectory_avg_score"))
    uses = {use["criterion"]: use for use in results["judges"]}
    assert set(uses) == set(JUDGED)
    # three of five samples agree: nobody asks the others
    assert uses["final_response_match_v2"]["calls"] == 3 * 3
    assert all(use["cost_usd"] > 0 and "unpriced" not in use for use in uses.values())
    assert f"judge: {sum(use['calls'] for use in uses.values())} calls" in said
    asked = Counter(record.model for record in llmock.requests)
    assert asked[AGENT_MODEL] == 6
    verdict_on_judging(llmock).assert_ok(strict=True)

    script(llmock)
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 0, said
    assert Counter(record.model for record in llmock.requests) == asked, (
        "neither the agent nor a judge"
    )
    assert "judges" not in results
    # where all is measured anew, judges' replies are remembered
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL, "--fresh")
    assert code == 0, said
    again = Counter(record.model for record in llmock.requests)
    assert {model: again[model] - asked[model] for model in JUDGES} == dict.fromkeys(JUDGES, 0)
    assert all("calls" not in use and use["cached"] for use in results["judges"])


def test_a_storm_of_429_on_all_sides_then_recovery_is_green(
    adk: str, tmp_path: Path, llmock: Any
) -> None:
    """Every judge is refused once, one of them twice, and the agent as often as its own client
    tries."""
    refused = dict.fromkeys(JUDGES, 1) | {SAFETY_MODEL: 2}
    script(
        llmock,
        *(fail(429, model, times=times, retry_after=0.3) for model, times in refused.items()),
        fail(429, AGENT_MODEL, times=2, retry_after=0.5),
    )
    # equal requests would pass for repeats of one call
    root = repository.write(tmp_path, python=adk, samples=1)
    code, said, results = repository.gate(
        root, llmock.url + "/gemini", "--concurrency", "1", "--retries", "2"
    )
    assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in JUDGED)
    assert {use["model"]: use["retries"] for use in results["judges"]} == refused
    verdict = verdict_on_judging(llmock)
    assert verdict.faults == sum(refused.values())
    verdict.assert_ok(strict=True)
    assert said.count("; retrying, at most 2 times a run") == 1
    assert [case["trials"][0].get("attempts", 1) for case in results["suites"][0]["cases"]] == [
        2,
        1,
        1,
    ]


def test_an_outage_is_neither_red_nor_green_harms_no_other_judge_and_is_made_good_by_resuming(
    adk: str, tmp_path: Path, llmock: Any
) -> None:
    script(llmock, fail(500, SAFETY_MODEL), fail(500, HALLUCINATION_MODEL))
    root = repository.write(tmp_path, python=adk, samples=1, judge="{deadline: 2}")
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 3, said
    assert results["verdict"]["kind"] == "not_measured"
    found = scores(results)
    assert found["safety_v1"] == found["hallucinations_v1"] == {"judge_unavailable"}
    others = (
        "tool_trajectory_avg_score",
        "final_response_match_v2",
        "rubric_based_final_response_quality_v1",
    )
    assert all(found[name] == {1.0} for name in others)
    assert "run again later" in said
    assert failures(results) == {}
    down = [use for use in results["judges"] if use["model"] in (SAFETY_MODEL, HALLUCINATION_MODEL)]
    assert all(
        set(use["failures"]) <= {"server_error", "timeout"} and "calls" not in use for use in down
    )
    verdict_on_judging(llmock).assert_ok()
    assert Counter(record.model for record in llmock.requests)[AGENT_MODEL] == 6

    llmock.reset()  # safety is back, and finds fault: the outage that is left does not hide it
    harmful = json.dumps({"rationale": "Umbrellas hurt.", "verdict": "unsafe"})
    script(llmock, fail(500, HALLUCINATION_MODEL), **{SAFETY_MODEL: harmful})
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL, "--resume")
    assert code == 1, said
    assert results["verdict"]["kind"] == "fail"
    found = scores(results)
    assert (found["safety_v1"], found["hallucinations_v1"]) == ({0.0}, {"judge_unavailable"})
    assert "Umbrellas hurt." in json.dumps(results)  # the judge's reasons are kept
    after = Counter(record.model for record in llmock.requests)
    assert set(after) == {SAFETY_MODEL, HALLUCINATION_MODEL}  # all else was measured, and kept


def test_an_agent_whose_model_fails_is_not_measured_and_its_429_holds_the_next_trial(
    adk: str, tmp_path: Path, llmock: Any
) -> None:
    """One way to fail a case; its own client asks twice where that may help. After the 429 nobody
    of its provider asks before it may."""
    faults = (
        fail(429, AGENT_MODEL, times=2, retry_after=2),
        fail(503, AGENT_MODEL, times=2),
        fail(403, AGENT_MODEL),
    )
    script(llmock, *faults)
    root = repository.write(tmp_path, python=adk, samples=1)
    code, said, results = repository.gate(root, llmock.url + "/gemini", *SERIAL)
    assert code == 3, said
    assert failures(results) == {"rate_limited": 1, "unreachable": 1, "unauthorized": 1}
    assert all(reasons == {"agent_failed"} for reasons in scores(results).values())
    # nobody judges what did not happen
    assert {record.model for record in llmock.requests} == {AGENT_MODEL}
    assert [record.status for record in llmock.requests] == [429, 429, 503, 503, 403]
    refused, following = llmock.requests[1], llmock.requests[2]
    assert following.started_at - refused.ended_at >= 1.9


# --- aimock ---------------------------------------------------------------------------------------


def fixtures() -> list[dict[str, Any]]:
    """Each of our questions is known by words of its own; the agent's by the tool's answer, or its
    absence."""
    judged = [
        {"match": {"model": model}, "response": {"content": text}}
        for model, text in repository.SAID.items()
    ]
    told = {
        "match": {"model": AGENT_MODEL, "hasToolResult": True},
        "response": {"content": repository.ANSWER},
    }
    looked_up = [
        {
            "match": {"model": AGENT_MODEL, "userMessage": f"in {city}?", "hasToolResult": False},
            "response": {
                "toolCalls": [{"name": "look_up_weather", "arguments": json.dumps({"city": city})}]
            },
        }
        for city in repository.CITIES
    ]
    return [*judged, told, *looked_up]


@pytest.fixture(scope="module", name="aimock")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mock.running(tmp_path_factory.mktemp("aimock"), fixtures()) as url:
        yield url


def test_faults_by_chance_on_every_side_end_green_or_unmeasured_and_are_made_good(
    adk: str, tmp_path: Path, aimock: str
) -> None:
    """One call in six fails, the agent's as well as the judges', many at once: whatever comes of
    it, nothing is judged wrongly. Without faults what is left is asked of the same server."""
    mock.set_chaos(aimock, dropRate=0.08, rateLimitRate=0.08)
    root = repository.write(tmp_path, python=adk)
    try:
        code, said, results = repository.gate(root, aimock, "--retries", "4")
    finally:
        mock.set_chaos(aimock)
    assert code in (0, 3), said
    found = scores(results)
    assert all(found[name] <= {1.0, "judge_unavailable", "agent_failed"} for name in JUDGED)
    assert code == (
        0 if all(reasons == {1.0} for name, reasons in found.items() if name in JUDGED) else 3
    )
    if code:
        code, said, results = repository.gate(root, aimock, "--resume")
        assert code == 0, said
    assert all(scores(results)[name] == {1.0} for name in (*JUDGED, "tool_trajectory_avg_score"))
