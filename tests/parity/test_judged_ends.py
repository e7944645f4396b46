"""Replies that end otherwise than they should (cut, stopped, empty, thoughts alone), as the Gemini API says it.

google-adk reads whatever text came; so do we under `adk_compat`, and in no other case: half a verdict is none.
"""

from __future__ import annotations

from typing import Any

import pytest
from parity import scripted
from parity.adk_child import AdkChild
from parity.scripted import Scripted
from parity.test_judged_faults import ANSWER, HALLUCINATIONS, MATCH, TEXT, VALID, request, said, sentences, turn

from evalgate.model import NotEvaluated, Reason, Score

pytestmark = pytest.mark.parity


def answer(finish: str | None, *parts: tuple[str, bool]) -> dict[str, Any]:
    """A GenerateContentResponse; without parts its candidate has no content."""
    written = [{"text": text, "thought": thought} for text, thought in parts]
    content = {"content": {"role": "model", "parts": written}} if parts else {}
    return {"candidates": [{**content, "finish_reason": finish}]}


def ends(text: str) -> dict[str, dict[str, Any]]:
    """How a reply with this text may end."""
    return {
        "whole": answer("STOP", (text, False)),
        "cut at the limit": answer("MAX_TOKENS", (text, False)),
        "cut in half": answer("MAX_TOKENS", (text[: len(text) // 2], False)),
        "cut before its first word": answer("MAX_TOKENS"),
        "stopped by a filter": answer("SAFETY", (text, False)),
        "stopped before its first word": answer("SAFETY"),
        "recited": answer("RECITATION", (text[:20], False)),
        "thoughts alone": answer("STOP", (text, True)),
        "thoughts, then cut": answer("MAX_TOKENS", (text, True)),
        "nothing at all": answer("STOP"),
        "no reason given": answer(None, (text, False)),
        "an end of its own": answer("OTHER", (text, False)),
        "an end of its own, and nothing": answer("OTHER"),
        "no candidate": {"candidates": []},
        "the prompt was blocked": {"prompt_feedback": {"block_reason": "SAFETY"}},
    }


def all_requests() -> dict[str, Scripted]:
    made: dict[str, Scripted] = {}
    for name, end in ends(VALID).items():
        made[f"{MATCH}: {name}"] = _with(request(MATCH, [turn(0)], ["x"], samples=1), end)
        made[f"{MATCH}: {name}, beside two samples"] = _with(
            request(MATCH, [turn(0)], ["x", VALID.replace('"valid"\n', '"invalid"\n'), VALID], samples=3), end
        )
    for name, end in ends(said(a="yes", b="no")).items():
        made[f"{ANSWER}: {name}"] = _with(request(ANSWER, [turn(0)], ["x"], samples=1, own="a b"), end)
    tags, verdicts = sentences("supported", "unsupported", "supported")
    for name, end in ends(verdicts).items():
        made[f"{HALLUCINATIONS}: {name}"] = _with(request(HALLUCINATIONS, [TEXT], [tags, "x"], samples=1), end, place=1)
    for name, end in ends(tags).items():
        made[f"{HALLUCINATIONS}, sentences: {name}"] = _with(
            request(HALLUCINATIONS, [TEXT], ["x", verdicts], samples=1), end
        )
    return made


def _with(made: Scripted, end: dict[str, Any], *, place: int = 0) -> Scripted:
    made["replies"]["@t0@"][place] = end
    return made


REQUESTS = all_requests()


@pytest.fixture(scope="module")
def answers(adk: AdkChild) -> dict[str, dict[str, Any]]:
    found = adk.ask("judged.py", REQUESTS.values())
    return dict(zip(REQUESTS, found, strict=True))


@pytest.mark.parametrize("name", REQUESTS)
def test_adk_compat_reads_what_adk_reads(name: str, answers: dict[str, dict[str, Any]]) -> None:
    adk = None if answers[name]["score"] is None else float.fromhex(answers[name]["score"])
    compat = scripted.grade(REQUESTS[name], adk_compat=True)
    assert (compat.value if isinstance(compat, Score) else None) == adk, (answers[name], compat)


@pytest.mark.parametrize("name", [name for name in REQUESTS if name.startswith(f"{MATCH}: ") and "beside" not in name])
def test_without_it_only_a_whole_reply_is_a_verdict(name: str) -> None:
    found = scripted.grade(REQUESTS[name], adk_compat=False)
    if name.split(": ")[1] in ("whole", "no reason given", "an end of its own"):
        assert isinstance(found, Score), found
    else:
        assert isinstance(found, NotEvaluated), found
        assert found.reason is Reason.JUDGE_UNAVAILABLE


def test_the_ends_say_different_things(answers: dict[str, dict[str, Any]]) -> None:
    """Else nothing would be proved above."""
    for metric in (MATCH, ANSWER, HALLUCINATIONS):
        assert len({answers[name]["score"] for name in REQUESTS if name.startswith(f"{metric}: ")}) >= 2
