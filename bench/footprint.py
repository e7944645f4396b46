"""How much of evalgate one case enters: the files and functions of `evalgate run --base main`, from
the CLI on.

    python bench/footprint.py [--list] [--calls FUNCTION ...]

Makes a repository with one evaluation file of one case and an agent in Python, changes the agent on
a branch, runs the gate in this process and counts the functions that it enters on all threads
(comprehensions and module bodies are none). The agents' own processes and the room `cli` are not
counted. `--list` prints each file with the number of functions that are entered in it. A person who
follows one case through the code reads that much. `--calls` prints how often each of the functions
was called, both sides together."""

from __future__ import annotations

import collections
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import evalgate

PACKAGE = str(Path(evalgate.__file__).parent) + os.sep
AGENT = """\
def answer(text: str) -> str:
    return "It is sunny in Rome."
"""
CASES = {
    "eval_set_id": "weather",
    "eval_cases": [
        {
            "eval_id": "rome",
            "conversation": [
                {
                    "user_content": {
                        "role": "user",
                        "parts": [{"text": "How is the weather in Rome?"}],
                    },
                    "final_response": {
                        "role": "model",
                        "parts": [{"text": "It is sunny in Rome."}],
                    },
                }
            ],
        }
    ],
}
RULES = "agents:\n- {driver: python, call: 'agent:answer'}\n"


def git(root: Path, *arguments: str) -> None:
    """A git command in the repository."""
    named = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    subprocess.run(
        ["git", "-C", str(root), *named, *arguments], check=True, stdout=subprocess.DEVNULL
    )


def make_repository(root: Path) -> None:
    """A base on `main`, and a branch that changes the agent."""
    git(root, "init", "-q", "-b", "main")
    (root / "agent.py").write_text(AGENT)
    (root / "weather.evalset.json").write_text(json.dumps(CASES))
    (root / "test_config.json").write_text(
        '{"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}'
    )
    (root / "evalgate.yml").write_text(RULES)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "base")
    git(root, "checkout", "-q", "-b", "change")
    (root / "agent.py").write_text(AGENT.replace("sunny", "very sunny"))
    git(root, "commit", "-q", "-a", "-m", "change")


def entered(root: Path) -> dict[str, collections.Counter[str]]:
    """How often each function was entered, by file, after the command line was read."""
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(PACKAGE):
            found[code.co_filename.removeprefix(PACKAGE)][
                f"{code.co_qualname}:{code.co_firstlineno}"
            ] += 1

    folder = str(Path(__file__).resolve().parent)
    # its statistics.py would stand in for Python's
    sys.path[:] = [path for path in sys.path if path != folder]
    cli = importlib.import_module("evalgate.cli")
    os.chdir(root)
    sys.argv = ["evalgate", "run", "--base", "main"]
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        cli.main()
    except SystemExit as end:
        print(f"exit code {end.code}")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {
        name: functions for name, functions in found.items() if not name.startswith("cli" + os.sep)
    }


def main() -> None:
    """Print the figures."""
    listed = "--list" in sys.argv[1:]
    counted = sys.argv[sys.argv.index("--calls") + 1 :] if "--calls" in sys.argv else []
    with tempfile.TemporaryDirectory() as made:
        make_repository(Path(made))
        found = entered(Path(made))
        if listed:
            for name, functions in sorted(found.items(), key=lambda each: -len(each[1])):
                print(f"{len(functions):5}  {name}")
        for asked in counted:
            print(
                asked,
                sum(
                    each[name]
                    for each in found.values()
                    for name in each
                    if name.partition(":")[0] == asked
                ),
            )
        print(f"files {len(found)}  functions {sum(map(len, found.values()))}")


if __name__ == "__main__":
    main()
