"""Replies in ADK's formats, read as google-adk 2.13 reads them, what it misreads included: for `adk_compat` alone."""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from evalgate.model import Rubric

# --- final_response_match_v2 ----------------------------------------------------------------------

_VALID = frozenset({"valid", "true"})
_INVALID = frozenset({"invalid", "almost", "false", "partially_valid", "partially valid", "partially"})


def match_verdict(text: str) -> bool | None:
    """Whether the answer is valid; None: unparsable. Labels are case-sensitive, as is everything here."""
    valid = _field("is_the_agent_response_valid", text)
    if valid is not None:
        return True if valid in _VALID else False if valid in _INVALID else None
    invalid = _field("is_the_agent_response_invalid", text)
    return None if invalid is None else invalid not in ("true", "invalid")


def _field(key: str, text: str) -> str | None:
    """A label without blanks after a double-quoted key, perhaps in brackets and quotes, and what must follow it."""
    found = re.search(rf'"{key}":\s*\[*\s*"*([^"\]^\s]*)"*\s*\]*\s*[,\n}}]', text)
    return found[1].strip().rstrip(",}") if found else None


# --- per_turn_user_simulator_quality_v1 -----------------------------------------------------------


def simulator_verdict(text: str) -> bool | None:
    """Whether the message is valid; None: unparsable. Here labels may hold blanks, and case does not matter."""
    found = re.search(r'"is_valid":\s*\[*\s*"*([^"\]]*)"*\s*\]*\s*[,\n}]', text)
    label = found[1].strip("}").replace(",", "").strip().lower() if found else ""
    return True if label in _VALID else False if label in _INVALID else None


# --- rubrics --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSaid:
    """What one block of a reply says of a rubric."""

    rubric_id: str
    rationale: str
    score: float | None


def rubric_verdicts(text: str, rubrics: Sequence[Rubric]) -> tuple[RubricSaid, ...]:
    """The blocks of a reply whose rubric is found among `rubrics`, in order; a rubric may be spoken of twice."""
    by_id = {rubric.rubric_id: rubric for rubric in rubrics}
    by_text = {folded(rubric.text): rubric for rubric in rubrics}
    said = []
    for named, property_text, rationale, score in _blocks(text):
        rubric = (by_id.get(named) if named else None) or by_text.get(folded(property_text))
        if rubric is not None:
            said.append(RubricSaid(rubric_id=rubric.rubric_id, rationale=rationale, score=score))
    return tuple(said)


def _blocks(text: str) -> list[tuple[str, str, str, float | None]]:
    properties = list(re.finditer(r"^\s*Property: (.*)$", text, re.MULTILINE))
    ids = list(re.finditer(r"^\s*ID: (.*)$", text, re.MULTILINE))
    rationales = re.findall(r"(?<=Rationale: ).*", text)
    verdicts = re.findall(r"(?<=Verdict: ).*", text)
    if not len(properties) == len(rationales) == len(verdicts):
        return []
    blocks = []
    before = -1
    for found, rationale, verdict in zip(properties, rationales, verdicts, strict=True):
        own = [each[1].strip() for each in ids if before < each.start() < found.start()]
        blocks.append((own[-1] if own else "", found[1].strip(), rationale.strip(), _yes_or_no(verdict)))
        before = found.start()
    return blocks


def _yes_or_no(verdict: str) -> float | None:
    lowered = verdict.lower()
    return 1.0 if "yes" in lowered else 0.0 if "no" in lowered else None


_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})


def folded(text: str) -> str:
    """A rubric's text without what models do to text that they repeat: quotes, dashes, blanks, markdown, case."""
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    return re.sub(r"\s+", " ", plain).strip(" *_`#>-\u2022\"'").lower()


# --- hallucinations_v1 ----------------------------------------------------------------------------

SUPPORTED = frozenset({"supported", "not_applicable"})
UNSUPPORTED = frozenset({"unsupported", "contradictory", "disputed"})
_FIELDS = ("sentence", "label", "rationale", "supporting_excerpt", "contradicting_excerpt")
_BLOCK = re.compile(
    r"\n".join(f"{field}:(.*?)" for field in _FIELDS) + r"(?=\nsentence:|\Z)", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSaid:
    """What one block of a reply says of a sentence; `label` lowered, perhaps none of the five."""

    sentence: str
    label: str
    rationale: str

    @property
    def score(self) -> float | None:
        """1.0, 0.0, or None for a label that is none."""
        return 1.0 if self.label in SUPPORTED else 0.0 if self.label in UNSUPPORTED else None


def sentences(text: str) -> list[str]:
    """What stands between sentence tags."""
    return re.findall(r"<sentence>(.*?)</sentence>", text, re.DOTALL)


def sentence_verdicts(text: str) -> list[SentenceSaid]:
    """The blocks that have all five fields in their order."""
    return [
        SentenceSaid(sentence=found[1].strip(), label=found[2].strip().lower(), rationale=found[3].strip())
        for found in _BLOCK.finditer(text.strip())
    ]


def accuracy(said: Sequence[SentenceSaid]) -> float | None:
    """The mean over sentences with one of the five labels; None where there is none."""
    scores = [each.score for each in said if each.score is not None]
    return statistics.mean(scores) if scores else None
