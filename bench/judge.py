"""Judging with early stop beside ADK's own judge plumbing: calls and wall time for the same votes.

    python bench/judge.py [--cases 100] [--samples 5] [--latency 0.3] [--agreement 0.9]
    [--concurrency 32]

evalgate asks a local server over HTTP with the real google-genai client; ADK asks a fake model that
sleeps as long, in .venv-adk or the interpreter in EVALGATE_TEST_ADK (`make bench` sets it up), with
its defaults: 4 cases at once, the samples of a case one after the other. Both hear the same labels.
The cases' patterns of agreement are the typical ones: each of the 2^samples patterns as often as
its probability says. The last line is JSON."""

from __future__ import annotations

import argparse
import http.server
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.judges import JUDGES
from evalgate.judges.base import Asker, JudgeReply, JudgeRequest, SampledRequest, Vote
from evalgate.judges.clients import Clients
from evalgate.judges.panel import JudgeBudget, UsageLedger, VotingPanel
from evalgate.judges.replay import VerdictCache

HERE = Path(__file__).resolve().parent
ADK_PYTHON = Path(os.environ.get("EVALGATE_TEST_ADK") or HERE.parent / ".venv-adk/bin/python")


def typical_patterns(cases: int, samples: int, agreement: float) -> list[list[bool]]:
    """`cases` patterns of samples, each as often as expected (largest remainder); half of the cases
    are bad answers."""
    weights = {
        pattern: math.prod(agreement if agrees else 1 - agreement for agrees in pattern)
        for pattern in itertools.product([True, False], repeat=samples)
    }
    counts = {pattern: int(cases * weight) for pattern, weight in weights.items()}
    by_rest = sorted(weights, key=lambda pattern: counts[pattern] - cases * weights[pattern])
    for pattern in by_rest[: cases - sum(counts.values())]:
        counts[pattern] += 1
    patterns = [pattern for pattern, count in counts.items() for _ in range(count)]
    return [
        [agrees == (case % 2 == 0) for agrees in pattern] for case, pattern in enumerate(patterns)
    ]


# --- the server: a process of its own, so that it takes no time from the client -------------------


def serve(patterns: list[list[bool]], latency_s: float) -> None:
    """Speak the Gemini API until stdin closes: a label of the case's pattern after `latency_s`."""
    asked: Counter[int] = Counter()
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            case = int(re.search(r"case-(\d+)", body)[1])  # type: ignore[index]  # every prompt names its case
            with lock:
                sample, asked[case] = asked[case], asked[case] + 1
            time.sleep(latency_s)
            label = "valid" if patterns[case][sample] else "invalid"
            answer = {
                "candidates": [{"content": {"parts": [{"text": label}]}, "finishReason": "STOP"}],
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": 1,
                    "totalTokenCount": 10,
                },
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def start_server(patterns: list[list[bool]], latency_s: float) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps({"patterns": patterns, "latency_s": latency_s}) + "\n")
    child.stdin.flush()
    return child, f"http://127.0.0.1:{child.stdout.readline().strip()}/v1beta"


# --- the two sides --------------------------------------------------------------------------------


def read_vote(reply: JudgeReply) -> dict[str, Vote]:
    return {"": Vote(passed={"valid": True, "invalid": False}.get(reply.text), label=reply.text)}


def run_ours(options: argparse.Namespace, url: str, cache: Path) -> dict[str, Any]:
    """Calls, wall seconds and scores of one run; the client is open when the clock starts, as ADK's
    is."""
    defaults = JudgeRule(base_url=url, calls_at_once=options.concurrency)
    clients = Clients(JUDGES, defaults=defaults, environment={"GOOGLE_API_KEY": "none"})
    ledger = UsageLedger()
    panel = VotingPanel(
        clients,
        budget=JudgeBudget(BudgetRule()),
        ledger=ledger,
        cache=VerdictCache(cache),
        calls_at_once=options.concurrency,
    )
    clients.client("gemini-2.5-flash")
    ballots = [
        SampledRequest(
            requests=tuple(
                JudgeRequest(
                    model="gemini-2.5-flash",
                    prompt=f"case-{case}",
                    asker=Asker(criterion="bench", version="1"),
                    sample=sample,
                )
                for sample in range(options.samples)
            ),
            parse=read_vote,
        )
        for case in range(options.cases)
    ]
    began = time.perf_counter()
    results = panel.vote_all(ballots)
    seconds = time.perf_counter() - began
    panel.close()
    return {
        "calls": ledger.uses()[0].calls,
        "wall_s": seconds,
        "scores": [
            float(item.passed or False) if isinstance(item, Vote) else None
            for item in (result.items[""] for result in results)
        ],
    }


def run_adk(
    options: argparse.Namespace, patterns: list[list[bool]], parallelism_limit: int
) -> dict[str, Any]:
    asked = {
        "patterns": patterns,
        "samples": options.samples,
        "latency_s": options.latency,
        "cases_at_once": 4,
        "parallelism_limit": parallelism_limit,
    }
    done = subprocess.run(
        [str(ADK_PYTHON), str(HERE / "adk_judge.py")],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, found: dict[str, Any]) -> None:
    print(f"{name:<44} {found['calls']:>6} calls {found['wall_s']:>8.2f} s", flush=True)


def main(options: argparse.Namespace) -> None:
    patterns = typical_patterns(options.cases, options.samples, options.agreement)
    print(
        f"{options.cases} cases, {options.samples} samples, {options.latency * 1000:.0f} ms a call, "
        f"each sample agrees with probability {options.agreement:g}"
    )
    server, url = start_server(patterns, options.latency)
    try:
        with tempfile.TemporaryDirectory() as cache:
            ours = run_ours(options, url, Path(cache))
            show(f"evalgate, {options.concurrency} at once", ours)
            again = run_ours(options, url, Path(cache))
            show("evalgate, second run", again)
    finally:
        server.communicate()
    assert ours["scores"] == again["scores"]
    if not ADK_PYTHON.exists():
        raise SystemExit(
            f"no google-adk at {ADK_PYTHON}: run `make bench`, or set EVALGATE_TEST_ADK"
        )
    adk = run_adk(options, patterns, parallelism_limit=1)
    show("ADK, its defaults", adk)
    wide = run_adk(options, patterns, parallelism_limit=options.samples)
    show(f"ADK, parallelism_limit {options.samples} (for comparison)", wide)
    assert ours["scores"] == adk["scores"] == wide["scores"], "the votes differ"
    ratios = {
        "call_ratio": round(ours["calls"] / adk["calls"], 4),
        "wall_ratio": round(ours["wall_s"] / adk["wall_s"], 4),
        "second_run_calls": again["calls"],
    }
    print(json.dumps(ratios))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--agreement", type=float, default=0.9)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(**json.loads(sys.stdin.readline()))
    else:
        main(arguments)
