"""Results that a stranger made: read where they are results, refused in words where they are not,
never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import build
from hypothesis import HealthCheck, given, settings, strategies as st

from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError
from evalgate.gate import post
from evalgate.github import publish
from evalgate.model import Links, Transcript, TrialKey
from evalgate.results import file, shapes


class Kept:
    def __init__(self, transcripts: Callable[[TrialKey], Transcript | None]) -> None:
        self._transcripts = transcripts

    def find_json(self, key: Any) -> Any:
        found = self._transcripts(key)
        return None if found is None else shapes.outcome_json(found, agents_seen={})

    def agents(self) -> dict[str, Any]:
        return {}


def sound() -> dict[str, Any]:
    report = build.report("pass fail/pass error")
    kept = Kept(report.run.transcripts)
    parsed: dict[str, Any] = json.loads("".join(file.render_results(report, outcomes=kept)))
    return parsed


SOUND = sound()


def read(raw: Any) -> file.Stored:
    content = raw if isinstance(raw, str) else json.dumps(raw)
    return file.read_untrusted(content.encode(), shown_as="results.json")


def test_sound_results_are_read() -> None:
    assert len(read(SOUND).run.trials) == 6


Change = Callable[[dict[str, Any]], None]


def case(raw: dict[str, Any], number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = raw["suites"][0]["cases"][number]
    return found


def many(raw: dict[str, Any]) -> None:
    raw["repeats"] = 1000
    raw["suites"][0]["cases"] = [
        {**case(raw), "case_id": f"c{number}", "trials": []} for number in range(200)
    ]


def twice(raw: dict[str, Any]) -> None:
    raw["suites"][0]["criteria"] *= 2


def no_number(raw: dict[str, Any]) -> None:
    case(raw)["trials"][0]["grades"]["response_match_score"]["value"] = float("nan")


CHANGES: list[tuple[str, Change, str]] = [
    ("a text of megabytes", lambda raw: case(raw).update(reason="x" * 1_000_001), "a text of 1,000,001"),
    ("a key of megabytes", lambda raw: raw.update({"x" * 1_000_001: 1}), "a text of"),
    ("a billion repeats", lambda raw: raw.update(repeats=10**9), "results.json (repeats): does not fit"),
    ("a billion more", lambda raw: raw.update(more=10**9), "results.json (more): does not fit"),
    ("negative repeats", lambda raw: raw.update(repeats=-1), "results.json (repeats): does not fit"),
    ("too many repeats", lambda raw: raw.update(repeats=5_000), "invalid number of repeats"),
    ("repeats times cases", many, "exceeds the limit"),
    ("a repeat far away", lambda raw: case(raw)["trials"][0].update(number=5), "with an invalid repeat number"),
    ("a trial twice", lambda raw: case(raw)["trials"].append(case(raw)["trials"][0]), "the same run of a case twice"),
    ("a case twice", lambda raw: raw["suites"][0]["cases"].append({**case(raw), "trials": []}), "the same case twice"),
    ("a file twice", lambda raw: raw["suites"].append({**raw["suites"][0], "cases": []}), "the same evaluation file"),
    ("a criterion twice", twice, "the same criterion twice"),
    ("an endless number", lambda raw: raw.update(seconds=float("inf")), "an invalid number"),
    ("no number", no_number, "an invalid number"),
    ("a huge number", lambda raw: case(raw)["trials"][0].update(tokens=10**300), "too large"),
    ("negative time", lambda raw: case(raw)["trials"][0].update(seconds=-1), "(suites[0].cases[0].trials[0].seconds)"),
    ("a shard too many", lambda raw: raw["suites"][0]["cases"][0].update(shard=2), "of a shard beyond the 1"),
    ("a part", lambda raw: raw.update(shard={"index": 1, "of": 2, "fingerprint": "x", "plan": []}), "is a shard"),
    ("another version", lambda raw: raw.update(schema_version=99), "schema_version"),
    ("no suites", lambda raw: raw.pop("suites"), "(suites): does not fit results.json: required key"),
    ("unknown key", lambda raw: case(raw)["trials"][0].update(x=1), "trials[0].x): does not fit results.json: unk"),
    ("a shape", lambda raw: case(raw).update(trials={"a": 1}), "does not fit results.json"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_what_no_run_writes_is_refused(change: Change, words: str) -> None:
    raw = json.loads(json.dumps(SOUND))
    change(raw)
    with pytest.raises(EvalgateError) as refused:
        read(raw)
    assert words in f"{refused.value.where}: {refused.value.message}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "null",
        "7",
        "[]",
        '"x"',
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 80 + "]" * 80,
        "\x00",
        "9" * 5_000,
    ],
)
def test_what_is_no_results_at_all_is_refused(text: str) -> None:
    with pytest.raises(EvalgateError):
        read(text)


def test_who_judged_is_told_as_far_as_the_results_know(tmp_path: Path) -> None:
    """Whoever has no score asked nobody; options that fit no judge, or a question of which nothing
    is told, are not made up."""
    raw = json.loads(json.dumps(SOUND))
    options = {"judge_model_options": {"judge_model": "a|b", "num_samples": 3}}
    (suite,) = raw["suites"]
    uses = [
        {
            "name": "final_response_match_v2",
            "threshold": 0.5,
            "options": options,
            "prompt_version": "7",
        }
    ]
    # no score
    uses += [
        {"name": "hallucinations_v1", "threshold": 0.5, "options": options, "prompt_version": "2"}
    ]
    uses += [
        {
            "name": "per_turn_user_simulator_quality_v1",
            "threshold": 0.5,
            "options": {"judge_model_options": 3},
        }
    ]
    suite["criteria"] += uses
    for trial in (trial for case in suite["cases"] for trial in case["trials"]):
        grade = {"value": 1.0}
        trial["grades"] = dict.fromkeys(
            ("final_response_match_v2", "per_turn_user_simulator_quality_v1"), grade
        )
    choice = Settings(root=tmp_path)
    report = post.decide(choice, read(raw), None, links=Links(commit="b" * 40))
    (asked,) = report.facts.criterion_judges
    assert (asked.criterion, asked.judge.model, asked.judge.num_samples) == (
        "final_response_match_v2",
        "a|b",
        3,
    )
    assert asked.judge.prompt_version == "7"
    shown = publish.decided(report, comment_rule="always").output.text
    assert "3 samples, prompt 7" in shown, "without a command to repeat it with as well"


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=8), st.just([]), st.just({}), st.just([[]]), st.just({"kind": "x"}), st.just("2026-13-40"),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [path, *(place for key, each in below for place in places(each, (*path, key)))]


PLACES = places(SOUND)[1:]


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(PLACES), VALUES, st.booleans()), min_size=1, max_size=3
    )
)
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_changed_is_refused_or_shown(
    changes: list[tuple[tuple[Any, ...], Any, bool]], tmp_path: Path
) -> None:
    raw = json.loads(json.dumps(SOUND))
    for place, value, gone in changes:
        at: Any = raw
        try:
            for step in place[:-1]:
                at = at[step]
            if gone:
                del at[place[-1]]
            else:
                at[place[-1]] = json.loads(json.dumps(value))  # a later change may go into it
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    choice = Settings(root=tmp_path)
    try:
        report = post.decide(choice, read(raw), None, links=Links(commit="b" * 40))
    except EvalgateError:
        return
    assert publish.decided(report, comment_rule="always").output.summary
