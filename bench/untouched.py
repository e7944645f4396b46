"""Changes that leave the agent alone, by the real command: how many are red, and their calls, with
a store and without.

    python bench/untouched.py [--times 100]

Each repository has 10 cases of 70/20/10 % at .98/.8/.4; every second one has a case that always
fails. The last line is JSON: `red`, changes that are red where the base's own gate is green;
`calls`, agent calls with a store; `main_fails`, how many changes are red where main is, and say
whose failure that is."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from builders.coin_agent import FAILING, MIXED, coin_agent  # noqa: E402 - the tests' own agent
from builders.gated_repository import Repository  # noqa: E402 - as above


def tried(number: int, folder: Path) -> dict[str, object]:
    """One repository: main's own run, then the change, with main's results at hand and without."""
    repo = Repository(folder / "repo", folder / "asked.log")
    repo.write(".gitignore", "evalgate-report/\n")
    rates = FAILING if number % 2 else MIXED
    repo.write("agent.py", coin_agent(f"bench {number}", rates))
    repo.gate_file(threshold="confirmed")
    repo.cases(*range(len(rates)))
    repo.commit("base")
    repo.reuses = True
    main, _ = repo.run("--confirm", base="")
    repo.git("checkout", "-qb", "change")
    repo.words()
    repo.commit("change")
    stored, _ = repo.run()
    calls, comment = repo.asked("coin"), repo.comment()
    alone, _ = repo.run("--fresh")
    return {
        "main": main,
        "stored": stored,
        "calls": calls,
        "alone": alone,
        "alone_calls": repo.asked("coin"),
        "told": "pre-existing" in comment and "Fix the agent" not in comment,
    }


def main() -> None:
    """Print a line a repository, and the sums."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=100)
    found = []
    for number in range(parser.parse_args().times):
        with tempfile.TemporaryDirectory() as folder:
            found.append(tried(number, Path(folder)))
        sys.stdout.write(f"{number}: {json.dumps(found[-1])}\n")
        sys.stdout.flush()
    green = [each for each in found if each["main"] == 0]
    red = [each for each in found if each["main"] != 0]
    sums = {
        "changes": len(found),
        "red": sum(each["stored"] != 0 for each in green),
        "calls": sum(each["calls"] for each in found),
        "red_without_store": sum(each["alone"] != 0 for each in green),
        "main_fails": [len(red), sum(each["stored"] == 1 and bool(each["told"]) for each in red)],
    }
    sys.stdout.write(f"{json.dumps(sums)}\n")


if __name__ == "__main__":
    main()
