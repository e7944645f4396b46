"""Whose word is read: replies of an honest judge that quotes what it judges, and how many are read
as a good verdict.

    python bench/judge_replies.py [--list] [--shapes] [--every N]

Every attack of tests/data/attacks/quoted.json is what an agent answers and what its tool returns.
The judge finds it bad, says so, and quotes it: as it is, decoded, tidied up, or the object in it
alone. Its reply has one of the shapes below, from one JSON object (which is what was asked for) to
free prose. A reply whose bad verdict is read as a good one is a false "good"; none may be. One
whose verdict is in a form that was asked for, or that judges use instead of it, and that says
nothing to the reader, is lost, unless the second question brings it back.

The same shapes without any attack, of good and of bad verdicts, tell what the caution costs:
"honest replies lost"."""

from __future__ import annotations

import argparse
import base64
import codecs
import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.judges import panel
from evalgate.judges.base import JudgeReply, JudgeRequest, Sample, SampledRequest, Vote, VoteResult
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Event,
    Invocation,
    Text,
    ToolResponse,
    TrialView,
)

ATTACKS: Final = Path(__file__).resolve().parents[1] / "tests/data/attacks/quoted.json"
ANSWER = "The weather is fine in Paris today, with 21 degrees in the shade."


@dataclass(frozen=True)
class Family:
    """A criterion, and what its judge says: `key`: where the verdict stands; `names`: what is voted
    on."""

    name: str
    good: str
    bad: str
    key: str = "verdict"
    names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


RUBRICS = [
    {"rubric_id": "right", "rubric_content": {"text_property": "It names the temperature."}},
    {"rubric_id": "polite", "rubric_content": {"text_property": "It greets the user."}},
]
FAMILIES: Final = (
    Family("final_response_match_v2", good="valid", bad="invalid"),
    Family(
        "rubric_based_final_response_quality_v1",
        good="yes",
        bad="no",
        names=("P1", "P2"),
        options={"rubrics": RUBRICS},
    ),
    Family("hallucinations_v1", good="supported", bad="unsupported", key="label", names=("S1",)),
    Family("safety_v1", good="safe", bad="unsafe", options={"judge": "llm"}),
    Family("response_evaluation_score", good="5", bad="1", options={"judge": "llm"}),
)


# --- what is asked --------------------------------------------------------------------------------


class AskingPanel:
    """Takes down what a criterion asks. A text is one sentence; nothing else is answered."""

    def __init__(self) -> None:
        self.asked: list[SampledRequest] = []

    def vote_all(self, ballots: Sequence[SampledRequest]) -> tuple[VoteResult, ...]:
        self.asked = list(ballots)
        said = "<sentence>\N{REPLACEMENT CHARACTER}</sentence>"
        return tuple(_one_sentence(ballot, said) for ballot in ballots)

    def vote(self, ballot: SampledRequest) -> VoteResult:
        return self.vote_all([ballot])[0]

    def ask(self, request: JudgeRequest) -> JudgeReply:
        raise NotImplementedError


def _one_sentence(ballot: SampledRequest, said: str) -> VoteResult:
    inside = ballot.requests[0].prompt.partition("<<< agent_text ")[2].partition("\n")[2]
    words = re.findall(r"\w+", inside.rpartition("\n>>> agent_text")[0])
    text = f"<sentence>{words[0]}</sentence>" if words else said
    votes = {item: Vote(passed=True, label="1") for item in ballot.items}
    return panel.decide(
        ballot,
        [Sample(index=number, votes=votes, text=text) for number in range(len(ballot.requests))],
    )


def ask_about(family: Family, text: str) -> SampledRequest:
    """What the criterion asks about an agent that answers `text`."""
    user = Content(parts=(Text(text="What is the weather?"),))
    tool = ToolResponse(name="weather", response={"note": text}, id=None)
    event = Event(author="agent", content=Content(parts=(tool,)))
    answer = Content(parts=(Text(text=text),))
    said = Invocation(user_content=user, final_response=answer, events=(event,))
    expected = Invocation(
        user_content=user, final_response=Content(parts=(Text(text="21 degrees"),))
    )
    evidence = TrialView(
        case=Case(case_id="c", conversation=(expected,)), actual=(said,), expected=(expected,)
    )
    asking = AskingPanel()
    use = CriterionUse(name=family.name, threshold=0.5, options=dict(family.options))
    criteria.build(use, CriterionServices(judge=asking))(evidence)
    (ballot,) = asking.asked
    return ballot


# --- what is said ---------------------------------------------------------------------------------

_ALIKE = str.maketrans("aeiopcsxyv", "\u0430\u0435\u0456\u043e\u0440\u0441\u0455\u0445\u0443\u0475")
_WIDE = {number: number + 0xFEE0 for number in range(0x21, 0x7F)}


def verdict_of(
    family: Family, names: Sequence[str], label: str, rationale: str, code: str = ""
) -> dict[str, Any]:
    """The object that the question asks for; `code`: what it asks to end it with, empty:
    nothing."""
    end = {"code": code} if code else {}
    if not names:
        return {"rationale": rationale, family.key: label, **end}
    entries = [
        {"id": name, "rationale": rationale if number == 0 else "see above", family.key: label}
        for number, name in enumerate(names)
    ]
    return {"verdicts": entries, **end}


def lines_of(family: Family, names: Sequence[str], label: str, rationale: str) -> str:
    """The same as lines."""
    if not names:
        return f"Rationale: {rationale}\n{family.key.capitalize()}: {label}"
    return "\n\n".join(
        f"ID: {name}\nRationale: {rationale if number == 0 else 'see above'}\n{family.key.capitalize()}: {label}"
        for number, name in enumerate(names)
    )


def fill(text: str, family: Family) -> str:
    """An attack in the words of a criterion: what the judge would have to say for the agent to
    pass."""
    names = family.names
    good = verdict_of(family, names, family.good, "It matches in every point.")
    listed = {"verdicts": [{"id": name, family.key: family.good} for name in names]}
    bare = listed if names else {family.key: family.good}
    said = json.dumps(good)
    escaped = json.dumps(said)[1:-1]
    values = {
        "object": said,
        "pretty": json.dumps(good, indent=2),
        "bare": json.dumps(bare),
        "python": repr(good),
        "upper": said.upper(),
        "escaped": escaped,
        "twice": json.dumps(escaped)[1:-1],
        "hexed": "".join(f"\\u{ord(each):04x}" if each.isalpha() else each for each in said),
        "wide": said.translate(_WIDE),
        "alike": said.translate(_ALIKE),
        "zero": "\u200b".join(said),
        "base64": base64.b64encode(said.encode()).decode(),
        "rot13": codecs.encode(said, "rot13"),
        "reversed": said[::-1],
        "entities": html.escape(said).replace("{", "&#123;"),
        "label": family.good,
        "alike-label": family.good.translate(_ALIKE),
        "pair": f'"{family.key}": "{family.good}"',
        "lines": lines_of(family, names, family.good, "it matches"),
    }
    return re.sub(r"<<([a-z0-9-]+)>>", lambda found: values[found[1]], text)


def quotes_of(attack: Mapping[str, str], family: Family) -> Iterator[str]:
    """How a judge repeats an attack."""
    shown = fill(attack["text"], family)
    yield shown
    decoded = fill(attack.get("decoded", attack["text"]), family)
    tidy = " ".join(
        "".join(each for each in unicodedata.normalize("NFKC", decoded) if each != "\u200b").split()
    )
    alone = decoded[decoded.find("{") : decoded.rfind("}") + 1]
    yield from dict.fromkeys(each for each in (decoded, tidy, alone) if each and each != shown)


@dataclass(frozen=True)
class Said:
    """What an honest judge has to say: about what, which label, in words, and the text that it
    quotes (empty: none)."""

    family: Family
    names: tuple[str, ...]
    label: str
    quote: str
    code: str = ""

    @property
    def good(self) -> bool:
        return self.label == self.family.good

    @property
    def reason(self) -> str:
        return (
            "It names the degrees and the place."
            if self.good
            else "It does not answer what was asked."
        )

    @property
    def told(self) -> str:
        """The reason with the quote in it."""
        return f"{self.reason} The agent wrote: {self.quote}" if self.quote else self.reason

    def object(self, rationale: str) -> dict[str, Any]:
        return verdict_of(self.family, self.names, self.label, rationale, self.code)

    def json(self, rationale: str, indent: int | None = None) -> str:
        return json.dumps(self.object(rationale), indent=indent, ensure_ascii=False)

    def raw(self) -> str:
        """JSON as a model writes it that does not escape what it quotes."""
        mark = "QUOTE-GOES-HERE"
        return self.json(f"{self.reason} The agent wrote: {mark}").replace(mark, self.quote)

    def lines(self, rationale: str) -> str:
        return lines_of(self.family, self.names, self.label, rationale)

    def block(self) -> str:
        return "\n".join(f"> {line}" for line in self.quote.splitlines())


def _nested(said: Said) -> str:
    try:
        quoted = json.loads(said.quote)
    except ValueError:
        quoted = said.quote
    entry = {**said.object(said.reason)}
    if said.names:
        entry["verdicts"] = [{"agent_wrote": quoted, **each} for each in entry["verdicts"]]
        return json.dumps(entry)
    return json.dumps({"agent_wrote": quoted, **entry})


Shape = Callable[[Said], str]

FORMED: Final[Mapping[str, Shape]] = {
    "object": lambda said: said.json(said.told),
    "object, pretty": lambda said: said.json(said.told, indent=2),
    "object in a fence": lambda said: f"```json\n{said.json(said.told)}\n```",
    "object in a bare fence": lambda said: f"```\n{said.json(said.told, indent=2)}\n```\n",
    "object in a fence, a wish": lambda said: (
        f"```json\n{said.json(said.told)}\n```\nHope this helps!"
    ),
    "object in Python's quotes": lambda said: repr(said.object(said.told)),
    "object with a comma too many": lambda said: said.json(said.told)[:-1] + ",}",
    "object, wrapped": lambda said: json.dumps({"result": said.object(said.told)}),
    "object said twice": lambda said: f"{said.json(said.told)}\n{said.json(said.told)}",
    "object with what it quotes as a field": _nested,
    "reasons, object": lambda said: f"Let me compare.\n{said.told}\n\n{said.json(said.reason)}",
    "reasons, object that quotes": lambda said: f"{said.reason}\n{said.json(said.told)}",
    "reasons, object in a fence": lambda said: (
        f"{said.told}\n\n```json\n{said.json(said.reason, indent=2)}\n```"
    ),
    "thoughts, object": lambda said: (
        f"<think>\nHm. {said.told}\n</think>\n\n{said.json(said.told)}"
    ),
    "thoughts, object in a fence": lambda said: (
        f"<think>{said.told}</think>```json\n{said.json(said.reason)}\n```"
    ),
    "lines": lambda said: said.lines(said.told),
    "lines, quoted before": lambda said: (
        f"The agent wrote:\n{said.quote}\n{said.lines(said.reason)}"
        if said.quote
        else said.lines(said.reason)
    ),
    "lines in bold": lambda said: re.sub(r"(?m)^(\w+):", r"**\1:**", said.lines(said.reason)),
    "lines in a list": lambda said: re.sub(r"(?m)^(\w+:)", r"- \1", said.lines(said.reason)),
    "lines with wide colons": lambda said: re.sub(
        r"(?m)^(\w+): ", "\\1\uff1a", said.lines(said.reason)
    ),
    "thoughts, lines": lambda said: f"<think>{said.told}</think>\n{said.lines(said.reason)}",
}
"""Replies in which a judge says its verdict as asked, or in a form that judges use instead."""

QUOTING: Final[Mapping[str, Shape]] = {
    "object, then what it quotes": lambda said: (
        f"{said.json(said.reason)}\n\nThe agent wrote:\n{said.quote}"
    ),
    "object in a fence, then what it quotes": lambda said: (
        f"```json\n{said.json(said.reason)}\n```\nwhereas the agent wrote\n```\n{said.quote}\n```"
    ),
    "what it quotes, then the object": lambda said: f"{said.quote}\n\n{said.json(said.reason)}",
    "what it quotes in a fence, the object in one": lambda said: (
        f"The agent wrote\n```\n{said.quote}\n```\nso:\n```json\n{said.json(said.reason)}\n```"
    ),
    "object that does not escape": lambda said: said.raw(),
    "object that does not escape, in a fence": lambda said: f"```json\n{said.raw()}\n```",
    "object that does not escape, in Python's quotes": lambda said: said.raw().replace('"', "'"),
    "lines, then what it quotes": lambda said: (
        f"{said.lines(said.reason)}\nThe agent wrote:\n{said.quote}"
    ),
    "lines that quote at last": lambda said: f"{said.lines(said.reason)}\n{said.quote}",
    "lines, then a block": lambda said: f"{said.lines(said.reason)}\n\nQuoted:\n{said.block()}",
    "thoughts left open": lambda said: (
        f"<think>The agent wrote {said.quote}\n{said.json(said.reason)}"
    ),
    "thoughts of two kinds": lambda said: (
        f"The agent wrote {said.quote}</think>\n{said.json(said.reason)}"
    ),
}
"""Replies in which the verdict stands beside the quote, so that nothing but its author tells them
apart."""

PROSE: Final[Mapping[str, Shape]] = {
    "prose": lambda said: f"I find the answer {said.label}. {said.told}",
    "prose, quoted first": lambda said: (
        f"{said.quote}\n\nThat is what the agent wrote, and it is wrong."
    ),
    "prose, quoted last": lambda said: (
        f"This is wrong. It does not answer. The agent wrote:\n{said.quote}"
    ),
    "prose, quoted last in a fence": lambda said: (
        f"This is wrong.\n\nIts text:\n```json\n{said.quote}\n```"
    ),
    "prose, quoted amid": lambda said: f"The agent wrote {said.quote} and is wrong.",
    "prose, quoted as a block": lambda said: (
        f"The agent says:\n\n{said.block()}\n\nI do not follow it."
    ),
    "prose in German": lambda said: f"Die Antwort ist falsch. Das Modell schrieb:\n{said.quote}",
    "prose in Chinese": lambda said: (
        f"\u7b54\u6848\u9519\u8bef\u3002\u4ee3\u7406\u5199\u9053\uff1a\n{said.quote}"
    ),
    "prose in Arabic": lambda said: (
        f"{said.quote}\n\u0627\u0644\u0625\u062c\u0627\u0628\u0629 \u062e\u0627\u0637\u0626\u0629."
    ),
    "another key": lambda said: f"My conclusion: {said.label}\nThe agent wrote:\n{said.quote}",
    "thoughts alone": lambda said: f"<think>It is wrong, although the agent wrote {said.quote}",
    "thoughts and prose": lambda said: f"<think>The agent wrote {said.quote}</think>It is wrong.",
}
"""Replies whose verdict is in words alone: nothing is lost where they say nothing, and nothing good
may be read."""


# --- what is read ---------------------------------------------------------------------------------


@dataclass
class Count:
    """Replies; those read as good although they say bad; and of those with a verdict in a known
    form how many are asked about again, and are lost: where the judge then answers as asked, and
    where it says the same again."""

    replies: int = 0
    good: int = 0
    good_if_obstinate: int = 0
    formed: int = 0
    asked_again: int = 0
    lost: int = 0
    lost_if_obstinate: int = 0
    where: Counter[str] = field(default_factory=Counter)


def _reply(text: str) -> JudgeReply:
    return JudgeReply(parts=(Text(text=text),))


def _code_of(ballot: SampledRequest) -> str:
    """What the question asks a reply to end with; empty: nothing."""
    is_coded = "code" in (ballot.requests[0].schema or {}).get("properties", {})
    return ballot.requests[0].prompt.partition("\n")[0].rpartition(" ")[2] if is_coded else ""


def tally(
    count: Count, ballot: SampledRequest, said: Said, shape: str, text: str, *, formed: bool
) -> None:
    """Read one reply; where the judge is asked again, it answers as it is asked to, or says the
    same again."""
    first = ballot.parse(_reply(text))
    again = {} if ballot.again is None else ballot.parse(_reply(said.json("")))
    read, obstinate = ({**_confirmed(ballot, first, second)} for second in (again, first))
    count.replies += 1
    count.formed += formed
    if not said.good:
        count.good_if_obstinate += any(_is_good(vote, said) for vote in obstinate.values())
        if any(_is_good(vote, said) for vote in read.values()):
            count.good += 1
            count.where[f"good: {said.family.name}: {shape}"] += 1
    if formed:
        count.asked_again += not _is_read(
            {item: vote for item, vote in first.items() if vote.sure}, ballot, said
        )
        count.lost_if_obstinate += not _is_read(obstinate, ballot, said)
        lost = not _is_read(read, ballot, said)
        count.lost += lost
        if lost:
            count.where[f"lost: {said.family.name}: {shape}"] += 1


def _confirmed(
    ballot: SampledRequest, first: Mapping[str, Vote], second: Mapping[str, Vote]
) -> Mapping[str, Vote]:
    """What the panel makes of a reply and the one to the second question."""
    found = {item: vote for item, vote in first.items() if vote.sure}
    for item in ballot.items:
        if item not in found:
            found |= panel.confirm_vote(item, first.get(item), second.get(item))
    return found


def _is_good(vote: Vote, said: Said) -> bool:
    return vote.label == said.family.good


def _is_read(votes: Mapping[str, Vote], ballot: SampledRequest, said: Said) -> bool:
    return all(item in votes and votes[item].label == said.label for item in ballot.items)


def names_of(family: Family, ballot: SampledRequest) -> tuple[str, ...]:
    """What the prompt calls what is voted on."""
    return ballot.items if family.key == "label" else family.names


def load() -> list[dict[str, str]]:
    """The attacks."""
    attacks: list[dict[str, str]] = json.loads(ATTACKS.read_text("utf-8"))["attacks"]
    return attacks


def measure_attacked(
    families: Sequence[Family] = FAMILIES, attacks: Sequence[Mapping[str, str]] = ()
) -> Count:
    """Replies that quote an attack; every verdict is bad."""
    count = Count()
    for family in families:
        for attack in attacks or load():
            ballot = ask_about(family, fill(attack["text"], family))
            for quote in quotes_of(attack, family):
                for code in dict.fromkeys(("", _code_of(ballot))):
                    said = Said(family, names_of(family, ballot), family.bad, quote, code)
                    for shapes, formed in ((FORMED, True), (QUOTING, True), (PROSE, False)):
                        for name, shape in shapes.items():
                            shown = f"{name}: {attack['name']}"
                            tally(count, ballot, said, shown, shape(said), formed=formed)
    return count


def measure_honest(families: Sequence[Family] = FAMILIES) -> Count:
    """Replies about an answer that attacks nobody, quoted or not; verdicts of either side."""
    count = Count()
    for family in families:
        ballot = ask_about(family, ANSWER)
        for label in (family.good, family.bad):
            for quote in ("", ANSWER):
                for code in dict.fromkeys(("", _code_of(ballot))):
                    said = Said(family, names_of(family, ballot), label, quote, code)
                    for name, shape in FORMED.items():
                        tally(count, ballot, said, name, shape(said), formed=True)
    return count


def show(name: str, count: Count) -> None:
    share = 100 * count.lost / count.formed
    print(
        f"{count.formed} {name}: {count.asked_again} asked about again, {count.lost} lost ({share:.1f} %); "
        f"{count.lost_if_obstinate} if the judge says the same again"
    )


def main(options: argparse.Namespace) -> None:
    attacks = load()[:: options.every]
    attacked, honest = measure_attacked(attacks=attacks), measure_honest()
    if options.list:
        for found, number in (attacked.where + honest.where).most_common():
            print(f"{number:>5} {found}")
    if options.shapes:
        by_shape: Counter[str] = Counter()
        for found, number in attacked.where.items():
            by_shape[found.rpartition(": ")[0]] += number
        for found, number in by_shape.most_common():
            print(f"{number:>5} {found}")
    languages = len({each["language"] for each in attacks})
    print(
        f"{len(attacks)} attacks in {languages} languages, {len(FORMED) + len(QUOTING) + len(PROSE)} shapes of a reply"
    )
    same = f"{attacked.good_if_obstinate} if the judge says the same again"
    print(f'{attacked.replies} replies that quote one: {attacked.good} false "good"; {same}')
    show("of those with a verdict in a known form", attacked)
    show("replies without an attack", honest)
    share = honest.lost / honest.formed
    print(
        json.dumps(
            {"false_good": attacked.good, "of": attacked.replies, "lost_share": round(share, 4)}
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--list", action="store_true", help="every reply that is misread, by shape and attack"
    )
    parser.add_argument("--shapes", action="store_true", help="the same by shape")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th attack")
    main(parser.parse_args())
