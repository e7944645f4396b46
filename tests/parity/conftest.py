# ruff: noqa: RUF001 - letters of every script are the subject here
"""What the parity tests share: google-adk's interpreter, and transcripts from the wild and from a
seed."""

import copy
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from parity.adk_child import AdkChild

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "../shared/corpus/files"

Ask = Callable[[Iterable[dict[str, Any]]], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One trial as ADK's JSON; `expected` None stands for a case without a reference."""

    origin: str
    actual: list[dict[str, Any]]
    expected: list[dict[str, Any]] | None


@pytest.fixture(scope="session")
def adk_python() -> Path:
    """The interpreter of the environment that holds the newest google-adk."""
    named = Path(os.environ.get("EVALGATE_TEST_ADK", ROOT / ".venv-adk"))
    interpreter = named / "bin/python" if named.is_dir() else named
    if not interpreter.exists():
        pytest.skip("no environment with google-adk[eval]: set EVALGATE_TEST_ADK or make .venv-adk")
    return interpreter


@pytest.fixture(scope="session")
def adk(adk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdkChild]:
    """google-adk's own code, to be asked; tests on several processes share its answers."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "adk-answers"
    shared.mkdir(exist_ok=True)
    child = AdkChild(adk_python, shared)
    yield child
    child.close()


@pytest.fixture(scope="session")
def ask_adk(adk: AdkChild) -> Ask:
    """Answers to requests of adk_side/score.py."""
    return lambda requests: adk.ask("score.py", requests)


@pytest.fixture(scope="session")
def ask_agents_cli(adk: AdkChild) -> Ask:
    """Answers to requests of adk_side/agents_cli.py."""
    return lambda requests: adk.ask("agents_cli.py", requests)


@pytest.fixture(scope="session")
def corpus_samples(ask_adk: Ask) -> list[Sample]:
    """Every conversation of the corpus that ADK can read, as recorded where it was, and with things
    gone wrong."""
    if not CORPUS.is_dir():
        pytest.skip("needs the corpus: public evaluation files beside the repository")
    paths = [path for path in sorted(CORPUS.rglob("*.json")) if "config" not in path.name]
    rng = random.Random(20260401)
    samples = []
    for path, answer in zip(paths, ask_adk({"read": str(path)} for path in paths), strict=True):
        for number, pair in enumerate(answer["pairs"]):
            origin = f"{path.relative_to(CORPUS)}#{number}"
            if pair["actual"]:
                samples.append(
                    Sample(origin=origin, actual=pair["actual"], expected=pair["expected"])
                )
            samples.append(
                Sample(
                    origin=f"{origin} echoed", actual=pair["expected"], expected=pair["expected"]
                )
            )
            samples.extend(
                Sample(
                    origin=f"{origin} changed {round_}",
                    actual=changed(rng, pair["expected"]),
                    expected=pair["expected"],
                )
                for round_ in range(4)
            )
    return samples


@pytest.fixture(scope="session")
def seeded_samples() -> list[Sample]:
    """1,300 made conversations with an actual side that is near the expected one, and some that
    cannot be paired."""
    rng = random.Random(713)
    samples = []
    for number in range(800):
        expected = [invocation(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 7)))]
        actual = (
            changed(rng, expected) if rng.random() < 0.95 else [invocation(rng) for _ in expected]
        )
        if rng.random() < 0.03:
            actual = actual[1:] or [invocation(rng)]
        reference = None if rng.random() < 0.02 else expected
        samples.append(Sample(origin=f"seeded {number}", actual=actual, expected=reference))
    return samples


# --- made conversations ---------------------------------------------------------------------------

ENGLISH = """
the cat is running runs ran quickly happily flies dies tied skies sky dying news innings relational conditional
rationally probate ceased controlling rolled agreed plastered motoring conflated troubled sized hopping falling
hissing fizzed failing filing happy vietnamization predication operator feudalism decisiveness hopefulness
callousness formality sensitivity revive allowance inference airliner gyroscopic adjustable defensible irritant
replacement adjustment dependent adoption communism activate angularity homologous effective bowdlerize rate
generally generic possibly geology don't e-mail foo_bar 17 3.14 $1,000.00 A B2B x y ies ied yes ties aaa ssss
"""
SCRIPTS = """
café naïve Straße ÎLE İstanbul ﬁne Ｈｅｌｌｏ １２３ ² ½ 你好世界 東京タワー 서울의 날씨 カタカナ ﾊﾝｶｸ สวัสดีครับ
ກິນເຂົ້າ ភាសាខ្មែរ မြန်မာဘာသာ مرحبا بالعالم שלום नमस्ते दुनिया Привет мир Ελλάς 👍 🇫🇷 ÅNGSTRÖM ǅ ſ ŉ ﷺ ㎏ ① 〇 𝔘𝔫𝔦
"""
WORDS = ENGLISH.split()
OTHER = [
    *SCRIPTS.split(),
    "e\u0301tude",
    "\U0001f469\u200d\U0001f680",
    "\u200d",
    "\u00a0",
    "\x1f",
    "\ufeff",
    "\u00adsoft",
    "\x85",
]
ARGS = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    1e300,
    0.1,
    "1",
    "",
    "Paris",
    "東京",
    [],
    {},
    [1, 2],
    [True, 2.0],
    {"a": None},
)
TOOLS = ("get_weather", "search", "transfer_to_agent", "book", "surch", "adk_request_confirmation")


def text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.08:
        return rng.choice(("", " ", "👍", "?!", "\n", "—"))
    pool = WORDS if kind < 0.6 else [*WORDS, *OTHER] if kind < 0.9 else OTHER
    drawn = [rng.choice(pool) for _ in range(rng.randint(1, 14))]
    if kind > 0.97:
        drawn += [
            chr(rng.choice((rng.randrange(0x20, 0xD7FF), rng.randrange(0xE000, 0x1FFFF))))
            for _ in range(30)
        ]
    return rng.choice((" ", " ", "\n", "")).join(drawn)


def args(rng: random.Random) -> Any:
    if rng.random() < 0.15:
        return rng.choice((None, {}))
    return {rng.choice("abcé"): value(rng, 2) for _ in range(rng.randint(0, 3))}


def value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth and kind < 0.2:
        return {rng.choice("xyz"): value(rng, depth - 1) for _ in range(rng.randint(0, 2))}
    if depth and kind < 0.35:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return rng.choice(ARGS)


def call(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"name": rng.choice(TOOLS)}
    if (drawn := args(rng)) is not None or rng.random() < 0.5:
        made["args"] = drawn
    if rng.random() < 0.5:
        made["id"] = f"call-{rng.randrange(9)}"
    return made


def answer(rng: random.Random) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [
        {"text": text(rng)} for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))
    ]
    if rng.random() < 0.15:
        parts.insert(0, {"text": text(rng), "thought": True})
    if rng.random() < 0.05:
        parts.append({"inline_data": {"mime_type": "image/png", "data": "AAAA"}})
    if parts and rng.random() < 0.1:  # google.genai takes several kinds in one part
        parts[-1]["function_call"] = call(rng)
    return {"role": "model", "parts": parts} if rng.random() < 0.95 else {"role": "model"}


def usage(rng: random.Random) -> dict[str, int]:
    kinds = ("prompt", "candidates", "thoughts", "cached_content", "tool_use_prompt", "total")
    return {f"{kind}_token_count": rng.randrange(5000) for kind in kinds if rng.random() < 0.6}


def event(rng: random.Random, part: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"author": "agent", "content": {"role": "model", "parts": [part]}}
    if rng.random() < 0.6:
        made["usage_metadata"] = usage(rng)
    if rng.random() < 0.4:
        made["model_version"] = "model-1"
    return made


def steps(rng: random.Random) -> dict[str, Any] | None:
    calls = [call(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 4)))]
    form = rng.random()
    if form < 0.15:
        return None
    if form < 0.5:
        return (
            {"tool_uses": calls, "intermediate_responses": [["agent", [{"text": text(rng)}]]]}
            if calls
            else {}
        )
    events = [event(rng, {"function_call": each}) for each in calls]
    if events and rng.random() < 0.1:
        events[-1]["content"]["parts"][0] |= {
            "text": text(rng),
            "function_response": {"name": "search"},
        }
    events += [event(rng, {"text": text(rng)}) for _ in range(rng.choice((0, 1)))]
    return {"invocation_events": events}


def invocation(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {
        "invocation_id": "e-1",
        "user_content": {"role": "user", "parts": [{"text": text(rng)}]},
    }
    if rng.random() < 0.93:
        made["final_response"] = answer(rng)
    if (drawn := steps(rng)) is not None:
        made["intermediate_data"] = drawn
    if rng.random() < 0.6:
        made["duration"] = rng.random() * 20
        for part in ("model_duration", "tool_duration"):
            if rng.random() < 0.8:
                made[part] = rng.random() * 12
    return made


# --- things gone wrong ----------------------------------------------------------------------------


def changed(rng: random.Random, conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A copy of the conversation in which each turn had, by chance, some of its calls and answer
    changed."""
    copied = copy.deepcopy(conversation)
    for turn in copied:
        for change in rng.sample((change_calls, change_answer, change_record), k=rng.randint(0, 3)):
            change(rng, turn)
    return copied


def _key(mapping: dict[str, Any], snake: str) -> str:
    head, *rest = snake.split("_")
    camel = head + "".join(word.title() for word in rest)
    return camel if camel in mapping else snake


def change_calls(rng: random.Random, turn: dict[str, Any]) -> None:
    """Drop, repeat, swap, rename, or write other arguments."""
    recorded = turn.get(_key(turn, "intermediate_data")) or {}
    uses = recorded.get(_key(recorded, "tool_uses"))
    if uses is None:
        events = recorded.get(_key(recorded, "invocation_events")) or []
        rng.shuffle(events) if rng.random() < 0.3 else None
        del events[rng.randrange(len(events)) if events and rng.random() < 0.4 else len(events) :]
        parts = [part for each in events for part in (each.get("content") or {}).get("parts") or ()]
        found = [
            part[_key(part, "function_call")]
            for part in parts
            if part.get(_key(part, "function_call"))
        ]
    else:
        rng.shuffle(uses) if rng.random() < 0.3 else None
        uses[:] = [each for each in uses for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))]
        found = uses
    for each in found:
        change_args(rng, each)


def change_args(rng: random.Random, made: dict[str, Any]) -> None:
    kind = rng.random()
    held = made.get("args")
    if kind < 0.1:
        made["name"] = rng.choice(TOOLS)
    elif not held and kind < 0.5:
        made["args"] = rng.choice((None, {}))
    elif held and kind < 0.6:
        key = rng.choice(sorted(held))
        equal = _otherwise_written(held[key])
        made["args"] = {**held, key: rng.choice((equal, equal, None, value(rng, 1)))}
    elif held and kind < 0.7:
        made["args"] = dict(list(held.items())[1:])


def _otherwise_written(number: Any) -> Any:
    """The same number of another JSON kind, which Python calls equal: 1, 1.0, true."""
    match number:
        case bool():
            return int(number)
        case int():
            return bool(number) if number in (0, 1) else float(number)
        case float():
            return int(number) if number.is_integer() else number
        case _:
            return number


def change_answer(rng: random.Random, turn: dict[str, Any]) -> None:
    """Drop, repeat and shuffle words, add others, think aloud, say nothing."""
    final = turn.get(_key(turn, "final_response"))
    kind = rng.random()
    if kind < 0.05:
        turn.pop(_key(turn, "final_response"), None)
    elif kind < 0.15 and final:
        final["parts"] = [{"text": text(rng), "thought": True}, *(final.get("parts") or [])]
    elif kind < 0.25 or not final:
        turn[_key(turn, "final_response")] = answer(rng)
    else:
        for part in final.get("parts") or ():
            if part.get("text"):
                drawn = [
                    word
                    for word in part["text"].split(" ")
                    for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2)))
                ]
                rng.shuffle(drawn) if rng.random() < 0.3 else None
                part["text"] = " ".join([*drawn, text(rng)] if rng.random() < 0.3 else drawn)


def change_record(rng: random.Random, turn: dict[str, Any]) -> None:
    """Record the steps in another way: as events of a model, or not at all."""
    name = _key(turn, "intermediate_data")
    recorded = turn.get(name)
    if rng.random() < 0.1:
        turn.pop(name, None)
    elif recorded and recorded.get(_key(recorded, "tool_uses")):
        uses = recorded[_key(recorded, "tool_uses")]
        turn[name] = {"invocation_events": [event(rng, {"function_call": each}) for each in uses]}
