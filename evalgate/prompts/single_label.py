"""Replies that hold one label: their JSON schema, and the vote in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalgate.model import Json
from evalgate.plugins import Vote
from evalgate.prompts import replies


def schema(labels: Iterable[str]) -> Json:
    """JSON schema of `{"rationale": ..., "verdict": ...}`."""
    return {
        "type": "object",
        "properties": {"rationale": {"type": "string"}, "verdict": {"type": "string", "enum": list(labels)}},
        "required": ["rationale", "verdict"],
        "additionalProperties": False,
    }


def parse(text: str, labels: Mapping[str, bool], *, keys: Sequence[str] = ("verdict",)) -> Mapping[str, Vote]:
    """The vote of a reply under the item "". Two different labels in one reply, or none of them, are no vote."""
    found = _entries(text, keys)
    if not found:
        return {}
    words = {replies.label(value, labels) for value, _ in found}
    rationale = next((rationale for _, rationale in found if rationale), "")
    if len(words) > 1:
        said = " and ".join(replies.said(value) for value, _ in found[:3])
        return {"": Vote(passed=None, label=said, rationale=rationale)}
    word = words.pop()
    if word is None:
        return {"": Vote(passed=None, label=replies.said(found[0][0]), rationale=rationale)}
    return {"": Vote(passed=labels[word], label=word, rationale=rationale)}


def _entries(text: str, keys: Sequence[str]) -> list[tuple[Any, str]]:
    """Every value that stands under one of the keys, with its rationale: in JSON, else in the first or last line."""
    for key in keys:
        entries = replies.entries(text, key=key)
        if entries:
            return [(entry[key], replies.prose(entry, "rationale", "reasoning", "reason")) for entry in entries]
    reasons = (replies.prose({key: value}, "rationale", "reasoning", "reason") for key, value in replies.rows(text))
    rationale = next((reason.strip(" \"',") for reason in reasons if reason), "")
    return [(value, rationale) for value in replies.outer_lines(text, keys=keys)]
