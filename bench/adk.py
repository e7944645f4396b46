"""evalgate beside `adk eval`, on the same agent and the same cases; and scoring alone.

    python bench/adk.py [--sizes 10,100,1000] [--runs 3] [--score 10000,20000]

Needs google-adk[eval] in .venv-adk (`make bench` sets it up) or an interpreter in
EVALGATE_TEST_ADK. Prints ratios (evalgate / adk eval, medians of alternating runs); the last line
is JSON. Seconds are those of the Python that runs this: the 3.13 of evalgate's image takes a
quarter to a third less of them than a 3.11 that was built without optimizations."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
import measuring
from measuring import Measured

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ADK_PYTHON = Path(os.environ.get("EVALGATE_TEST_ADK") or ROOT / ".venv-adk/bin/python")
EVALGATE = Path(sys.executable).parent / "evalgate"
CRITERIA = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}


def turn(number: int, *, wrong: bool) -> dict:
    title = f"book-{number % 10}"
    answer = f"The {title} stands on shelf A3 and there are {number + 1} copies of it."
    return {
        "invocation_id": f"inv-{number}",
        "user_content": {"role": "user", "parts": [{"text": f"Where is book {number}?"}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": {
            "tool_uses": [
                {"name": "find_shelf", "args": {"title": "nothing" if wrong else title}},
                {"name": "count_copies", "args": {"number": number, "more": 1}},
            ]
        },
    }


def write_eval_set(path: Path, cases: int, *, wrong: bool) -> None:
    """An evaluation set; with `wrong`, every tenth case expects what the agent does not do."""
    session = {"app_name": "desk_agent", "user_id": "user", "state": {}}
    written = [
        {
            "eval_id": f"case_{number}",
            "conversation": [turn(number, wrong=wrong and number % 10 == 9)],
            "session_input": session,
        }
        for number in range(cases)
    ]
    path.write_text(json.dumps({"eval_set_id": path.name.split(".")[0], "eval_cases": written}))


def workplace(folder: Path, cases: int) -> Path:
    """A repository with the agent and one evaluation set."""
    shutil.copytree(
        HERE / "desk_agent", folder / "desk_agent", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "test_config.json").write_text(json.dumps(CRITERIA))
    write_eval_set(folder / "cases.evalset.json", cases, wrong=True)
    return folder


def environment() -> dict[str, str]:
    """This one's, less what would make either side another program than a user has: whoever asks
    Python to keep no bytecode would have us compile all of our modules in every run, and not those
    that pip has compiled."""
    ours = ("EVALGATE_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run_evalgate(folder: Path) -> Measured:
    shutil.rmtree(folder / "evalgate-report", ignore_errors=True)
    command = [
        str(EVALGATE),
        "run",
        "--fresh",
        "--agent",
        "adk:desk_agent",
        "--python",
        str(ADK_PYTHON),
        "--workers",
        "2",
    ]
    measured = measuring.measure(
        command, cwd=folder, environment=environment(), log=folder / "evalgate.log"
    )
    if measured.code != 1:  # a tenth of the cases must fail
        raise SystemExit(
            f"evalgate ended with {measured.code}:\n{(folder / 'evalgate.log').read_text()[-3000:]}"
        )
    return measured


def run_adk(folder: Path) -> Measured:
    shutil.rmtree(folder / "desk_agent/.adk", ignore_errors=True)
    command = [
        str(ADK_PYTHON),
        "-P",
        "-m",
        "google.adk.cli",  # as the command `adk` does
        "eval",
        "desk_agent",
        "cases.evalset.json",
        "--config_file_path",
        "test_config.json",
    ]
    measured = measuring.measure(
        command, cwd=folder, environment=environment(), log=folder / "adk.log"
    )
    if "Tests passed" not in (folder / "adk.log").read_text():
        raise SystemExit(
            f"adk eval ended with {measured.code}:\n{(folder / 'adk.log').read_text()[-3000:]}"
        )
    return measured


def result_bytes(folder: Path) -> tuple[int, int]:
    """Size of the result files: ours, ADK's."""
    theirs = max(
        (folder / "desk_agent/.adk/eval_history").iterdir(), key=lambda path: path.stat().st_mtime
    )
    return (folder / "evalgate-report/results.json").stat().st_size, theirs.stat().st_size


def beside_adk(size: int, runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = workplace(Path(name), size)
        ours, theirs = measuring.alternate(
            runs, lambda: run_evalgate(folder), lambda: run_adk(folder)
        )
        our_bytes, their_bytes = result_bytes(folder)
    figures = {
        "wall_ratio": measuring.ratio(ours, theirs, "wall_s"),
        "cpu_ratio": measuring.ratio(ours, theirs, "cpu_s"),
        "memory_ratio": measuring.ratio(ours, theirs, "peak_mib"),
        "result_ratio": round(our_bytes / their_bytes, 3),
    }
    for label, taken in (("evalgate", ours), ("adk eval", theirs)):
        print(
            f"{size:>6} cases  {label}  wall {measuring.middle(taken, 'wall_s'):>7} s  "
            f"cpu {measuring.middle(taken, 'cpu_s'):>7} s  peak {measuring.middle(taken, 'peak_mib'):>7} MiB"
        )
    print(f"{size:>6} cases  ratios    {figures}", flush=True)
    return figures


def scoring_alone(size: int, runs: int) -> Measured:
    """Recorded transcripts, graded with the default criteria."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_config.json").write_text(json.dumps(CRITERIA))
        write_eval_set(folder / "cases.evalset.json", size, wrong=True)
        (folder / "recorded").mkdir()
        write_eval_set(folder / "recorded/cases.json", size, wrong=False)
        command = [
            str(EVALGATE),
            "run",
            "--fresh",
            "cases.evalset.json",
            "--agent",
            "replay:recorded/cases.json",
        ]
        taken = []
        for _ in range(runs):
            shutil.rmtree(folder / "evalgate-report", ignore_errors=True)
            log = folder / "log"
            taken.append(measuring.measure(command, cwd=folder, environment=environment(), log=log))
            if taken[-1].code != 1:
                raise SystemExit(
                    f"evalgate ended with {taken[-1].code}:\n{log.read_text()[-3000:]}"
                )
    best = sorted(taken, key=lambda each: each.wall_s)[len(taken) // 2]
    shown = f"wall {best.wall_s:.1f} s  cpu {best.cpu_s:.1f} s  peak {best.peak_mib:.0f} MiB"
    print(f"{size:>6} cases  scoring alone  {shown}", flush=True)
    return best


def help_s(runs: int) -> float:
    taken = []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(max(5, runs)):
            folder = Path(name)
            command = [str(EVALGATE), "--help"]
            taken.append(
                measuring.measure(
                    command, cwd=folder, environment=environment(), log=folder / "log"
                ).wall_s
            )
    return round(median(taken), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--score", default="10000,20000")
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    figures: dict[str, float] = {"help_s": help_s(chosen.runs)}
    print(
        f"{platform.python_implementation()} {platform.python_version()}",
        platform.machine(),
        flush=True,
    )
    print(f"evalgate --help {figures['help_s']} s", flush=True)
    for size in [int(each) for each in chosen.score.split(",") if each]:
        scored = scoring_alone(size, chosen.runs if size <= 10_000 else 1)
        figures[f"score_{size // 1000}k_s"] = round(scored.wall_s, 2)
        figures[f"score_{size // 1000}k_mib"] = round(scored.peak_mib, 1)
    for size in [int(each) for each in chosen.sizes.split(",") if each]:
        for name, value in beside_adk(size, chosen.runs).items():
            figures[f"{name}_{size}"] = value
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
