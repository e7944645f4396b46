"""A long run through faults: an agent and a judge that fail at known rates, the verdict that each
case must have, and a look at the processes of the run while it lasts.

Which call has which fault is a hash of its place (side, case, and how often it was made before):
the same in every process and every run."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import json
import re
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from builders.gated_repository import content
from builders.gemini_double import GeminiDouble

MARK = "SOAK_MARK"
"""A variable of the environment that all processes of the run have."""
RATES = {"crash": 0.02, "hang": 0.01, "limited": 0.05, "garbage": 0.01}
"""Shares of the agent's turns, and of the judge's replies."""
PATIENCE_S = 5.0
"""The longest turn, and the longest reply of the judge."""
CONCURRENCY = 8
SAMPLE_S = 0.1
SPARE_MIB = 6.0
KIB_PER_TRIAL = 4.0
"""Growth that is no leak: caches and the allocator's spare room; what results keep of a trial."""


def fault(place: str, rates: Mapping[str, float]) -> str:
    """The fault of a call, or ""."""
    number = int.from_bytes(hashlib.sha256(place.encode()).digest()[:8], "big") / 2**64
    for name, rate in rates.items():
        if number < rate:
            return name
        number -= rate
    return ""


AGENT = '''
"""Answers `question N` with `answer N by SIDE`, and logs each turn before it. One that crashes or hangs leaves a
child behind."""
import hashlib, json, os, signal, subprocess, sys

{function}

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
            number = int(message["content"]["parts"][0]["text"].split()[-1])
            turn = f"{side} {{number}}"
            with open({log!r}, "a+") as log:
                log.write(turn + chr(10))
                log.seek(0)
                time = log.read().splitlines().count(turn) - 1
            word = "answer"
            match {lasting}.get(number) or fault(f"{seed} {{turn}} {{time}}", {rates}):
                case "crash":
                    subprocess.Popen(["sleep", "600"])
                    os._exit(9)
                case "hang":
                    subprocess.Popen(["sleep", "600"])
                    signal.pause()
                case "limited":
                    say(type="turn_failed", session=session, kind="rate_limited", message="429", retry_after_s=0.1)
                    continue
                case "garbage":
                    print("Segmentation fault", flush=True)
                    continue
                case "wrong":
                    word = "mistake"
            part = {{"text": f"{{word}} {{number}} by {side}"}}
            say(type="event", session=session, content={{"role": "model", "parts": [part]}}, final=True)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''


@dataclass(frozen=True)
class Plan:
    """What is to be run, and what fails for good, by the number of the case."""

    cases: int
    seed: str
    head: Mapping[int, str] = field(default_factory=dict)
    base: Mapping[int, str] = field(default_factory=dict)
    unjudged: frozenset[int] = frozenset()
    """Head's answers for which the judge has no reply."""

    def expected(self, number: int, lost: Mapping[str, int]) -> tuple[str, str]:
        """Verdict and label of head's case. `lost`: turns that a kill took out of the journals."""
        lasting = self.head.get(number, "")
        if lasting == "wrong":
            return "fail", "pre_existing" if number in self.base else "new"
        if lasting or number in self.unjudged:
            return "not_measured", "not_measured"
        if not self._fails_first(f"head {number}", lost):
            return "pass", ""
        # what fails on both sides is run again last, and not in a gate that has failed by then
        is_open = bool(self.head) and self._fails_first(f"base {number}", lost)
        return "not_measured", "not_measured" if is_open else "flaky"

    def _fails_first(self, place: str, lost: Mapping[str, int]) -> bool:
        faults = (
            fault(f"{self.seed} {place} {turn}", RATES)
            for turn in itertools.count(lost.get(place, 0))
        )
        return next(name for name in faults if name != "limited") != ""  # that is tried again

    def agent(self, side: str, log: Path) -> str:
        """The source of a side's agent."""
        return AGENT.format(
            function=inspect.getsource(fault).replace("Mapping[str, float]", "dict"),
            side=side,
            lasting=dict(self.head if side == "head" else self.base),
            seed=self.seed,
            rates=RATES,
            log=str(log),
        )

    def files(self, judge_url: str) -> dict[str, Any]:
        """All files of the repository except the agent."""
        gate = {
            "agents": [{"driver": "command", "command": [sys.executable, "agent.py"]}],
            "env": [MARK],
            "turn-timeout": PATIENCE_S,
            "concurrency": CONCURRENCY,
            "judge": {"base_url": judge_url, "timeout": PATIENCE_S, "num_samples": 1},
        }
        cases = [
            {
                "eval_id": f"case_{number}",
                "conversation": [
                    {
                        "user_content": content(f"question {number}", "user"),
                        "final_response": content(f"answer {number}", "model"),
                    }
                ],
            }
            for number in range(self.cases)
        ]
        judged = {"threshold": 1.0, "judge_model_options": {"judge_model": "gemini-2.5-flash"}}
        return {
            "evalgate.yml": gate,
            "evals/desk.evalset.json": {"eval_set_id": "desk", "eval_cases": cases},
            "evals/test_config.json": {"criteria": {"final_response_match_v2": judged}},
        }


class Judge(GeminiDouble):
    """Knows a wrong answer by its word. Counts its good replies by what they are about (`head
    12`)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.times: Counter[str] = Counter()
        self.replies: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        match = re.search(r"(answer|mistake) (\d+) by (head|base)", json.dumps(body))
        assert match is not None
        word, number, side = match.groups()
        about = f"{side} {number}"
        with self._lock:
            name = fault(f"{self.plan.seed} judge {about} {self.times[about]}", RATES)
            if side == "head" and int(number) in self.plan.unjudged:
                name = "limited"
            self.times[about] += 1
            self.replies[about] += not name
        match name:
            case "crash":
                raise ConnectionAbortedError  # its connection is closed
            case "hang":
                time.sleep(PATIENCE_S + 1)
            case "limited":
                return 429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}
        verdict = json.dumps(
            {"reasoning": "", "verdict": "valid" if word == "answer" else "invalid"}
        )
        text = "Lorem ipsum" if name == "garbage" else verdict
        candidate = {"content": content(text, "model"), "finishReason": "STOP"}
        return 200, {"candidates": [candidate]}

    def handle_error(self, *_: object) -> None:
        return


# --- the run's processes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """The processes of a run at a moment. `own_mib`: memory of the largest, without files.
    `descriptors`: of the one with most. `logged`: bytes of the agents' log."""

    own_mib: float
    descriptors: int
    processes: int
    logged: int


class Watch(threading.Thread):
    """Looks at a process and all that it started, until it ends."""

    def __init__(self, pid: int, log: Path) -> None:
        super().__init__(daemon=True)
        self._samples: list[Sample] = []
        self._pid = str(pid)
        self._log = log

    def run(self) -> None:
        while Path(f"/proc/{self._pid}").exists():
            with contextlib.suppress(OSError, ValueError):  # a process that has just ended
                self._samples.append(self._sample())
            time.sleep(SAMPLE_S)

    def expect_no_growth(self, trials: int) -> None:
        """Compare the second half of the time in which agents took turns with the first, both
        without their beginnings."""
        ends = self._samples[0].logged, self._samples[-1].logged
        samples = [sample for sample in self._samples if sample.logged not in ends]
        quarter = len(samples) // 4
        first, second = samples[quarter : 2 * quarter], samples[3 * quarter :]
        before, after = (
            statistics.median(sample.own_mib for sample in half) for half in (first, second)
        )
        assert after - before < SPARE_MIB + trials / 2 * KIB_PER_TRIAL / 1024
        for name in ("descriptors", "processes"):
            before, after = (
                max(getattr(sample, name) for sample in half) for half in (first, second)
            )
            assert after <= before + CONCURRENCY, name

    def _sample(self) -> Sample:
        processes = list(_with_descendants(self._pid))
        return Sample(
            own_mib=max(map(_own_mib, processes)),
            descriptors=max(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes),
            processes=len(processes),
            logged=self._log.stat().st_size,
        )


def _own_mib(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return sum(map(int, re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+)", status, re.MULTILINE))) / 1024


def _with_descendants(pid: str) -> Iterator[str]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from _with_descendants(child)


def left_alone(mark: str) -> bool:
    """True as soon as no process has the mark in its environment."""
    deadline = time.monotonic() + PATIENCE_S
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(SAMPLE_S)
    return not _marked(mark)


def _marked(mark: str) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return True
    return False


# --- what came of it ------------------------------------------------------------------------------

Name: TypeAlias = tuple[str, str, int]
"""A trial: its case, purpose and number."""


def turns(log: Path) -> Counter[str]:
    """How many turns the agents took (`head 12`)."""
    return Counter(log.read_text(encoding="utf-8").splitlines())


def journaled(report: Path, side: str, *, reused: bool = True) -> tuple[set[Name], Counter[str]]:
    """The trials of a side in its journal, and the turns that they took. `reused`: also those of
    an earlier run."""
    name = "journal.jsonl" if side == "head" else "base-journal.jsonl"
    names: set[Name] = set()
    count: Counter[str] = Counter()
    with (report / name).open(encoding="utf-8") as file:
        # a kill may have cut off the last line
        for line in (json.loads(line) for line in file if line.endswith("\n")):
            if "trial" in line and (reused or "measured_at" not in line):
                _, case, purpose, number = line["key"]
                names.add((case, purpose, number))
                count[case.replace("case_", f"{side} ")] += line["attempts"]
    return names, count


def reported(report: Path, side: str) -> list[dict[str, Any]]:
    """The cases of a side, as in results.json."""
    name = "results.json" if side == "head" else "base.json"
    results = json.loads((report / name).read_text(encoding="utf-8"))
    return results["suites"][0]["cases"]


def trials_of(cases: list[dict[str, Any]]) -> list[Name]:
    return [
        (case["case_id"], trial.get("purpose", "first"), trial.get("number", 0))
        for case in cases
        for trial in case["trials"]
    ]


def judged(cases: list[dict[str, Any]], side: str) -> Counter[str]:
    """How many trials of each case the judge scored."""
    count: Counter[str] = Counter()
    for case in cases:
        for trial in case["trials"]:
            is_scored = "value" in trial["grades"]["final_response_match_v2"]
            count[case["case_id"].replace("case_", f"{side} ")] += is_scored
    return count
