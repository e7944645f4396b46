"""pytest with evalgate's plugin beside `evalgate run`, on the same cases: the ratio of wall
seconds.

    python bench/pytest_run.py [--cases 40] [--seconds 0.5] [--pairs 5]

The agent is a Python function that takes so many seconds for a turn. pytest loads no other plugins,
since each has its own cost. The last line is JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import measuring

AGENT = "import time\n\n\ndef answer(text):\n    time.sleep({seconds})\n    return text\n"


def repository(folder: Path, *, cases: int, seconds: float) -> None:
    """An evaluation file of cases that pass."""
    said = [{"parts": [{"text": f"book {number}"}]} for number in range(cases)]
    made = [
        {
            "eval_id": f"case_{number}",
            "conversation": [{"user_content": each, "final_response": each}],
        }
        for number, each in enumerate(said)
    ]
    files = {
        "agent.py": AGENT.format(seconds=seconds),
        "desk.evalset.json": json.dumps({"eval_set_id": "desk", "eval_cases": made}),
        "test_config.json": json.dumps({"criteria": {"response_match_score": 0.8}}),
        "evalgate.yml": "agents: [{driver: python, call: 'agent:answer'}]\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(cases: int, seconds: float, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        repository(folder, cases=cases, seconds=seconds)
        own = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment = {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        commands = {
            "pytest": ["-m", "pytest", "-q", "-p", "evalgate.wings.pytest.plugin", "--evalgate"],
            "run": ["-m", "evalgate", "run", "--baseline", "none", "--fresh"],
        }

        def measure(name: str) -> measuring.Measured:
            log = folder.parent / f"{folder.name}-{name}.log"
            found = measuring.measure(
                [sys.executable, *commands[name]], cwd=folder, environment=environment, log=log
            )
            if found.code:
                sys.exit(log.read_text(encoding="utf-8"))
            log.unlink()
            return found

        measure("run")  # compiled, and in the page cache
        theirs, ours = measuring.alternate(pairs, lambda: measure("pytest"), lambda: measure("run"))
    print(
        json.dumps(
            {
                "pytest_s": measuring.middle(theirs, "wall_s"),
                "run_s": measuring.middle(ours, "wall_s"),
                "pytest_to_run": measuring.ratio(theirs, ours, "wall_s"),
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    main(given.cases, given.seconds, given.pairs)
