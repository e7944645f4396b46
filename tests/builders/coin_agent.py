"""An agent of chance: answers each question right with a probability of its own."""

from __future__ import annotations

from collections.abc import Sequence

_AGENT = """
import json, os, random, sys

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={{"framework": "test"}}, sessions=1)
        case "start":
            say(type="started", session=session)
        case "turn":
            text = message["content"]["parts"][0]["text"]
            with open(os.environ["ASKED_LOG"], "a") as log:
                log.write("coin " + text + chr(10))
            count = len(open(os.environ["ASKED_LOG"]).readlines())
            passes = random.Random(f"{seed} {{count}}").random() < {rates}[int(text.split()[-1]) % len({rates})]
            part = {{"text": text.replace("question", "answer") if passes else "nothing of the kind"}}
            say(type="event", session=session, author="agent", content={{"role": "model", "parts": [part]}}, final=True)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
"""

MIXED = (0.98, 0.98, 0.98, 0.98, 0.98, 0.98, 0.98, 0.8, 0.8, 0.4)
"""70/20/10 % of the questions at .98/.8/.4."""
FAILING = (*MIXED[:-1], 0.0)


def coin_agent(seed: str, rates: Sequence[float]) -> str:
    """The agent's source; the same seed draws the same, call after call."""
    return _AGENT.format(seed=seed, rates=tuple(rates))
