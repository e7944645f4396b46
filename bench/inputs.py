"""What it costs that an agent's worker tells what it asked of its checkout.

    python bench/inputs.py [--rounds 7] [--trials 32]

A round opens an agent twice, with and without tracing, runs `--trials` trials of one turn in a
worker of its own, and closes it. CPU is user + system of the worker, start and imports included.
Agents: a Python function that reads a prompt and a table in every trial, and, where there is
google-adk (.venv-adk or the interpreter in EVALGATE_TEST_ADK), the ADK agent of this folder. Prints
the ratio of the medians (with / without); the last line is JSON."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from evalgate.agents import DRIVERS
from evalgate.agents.base import AgentLimits, AgentSetting
from evalgate.model import Case, Content, Text, TrialKey
from evalgate.system.python_env import InstallSetup

HERE = Path(__file__).resolve().parent
ADK_PYTHON = Path(os.environ.get("EVALGATE_TEST_ADK") or HERE.parent / ".venv-adk/bin/python")

BOT = """
import json
from pathlib import Path

HERE = Path(__file__).parent


def reply(text):
    prompt = (HERE / "prompts" / "desk.txt").read_text()
    table = json.loads((HERE / "table.json").read_text())
    return prompt + str(sum(table.values()))
"""


def workplace(folder: Path) -> Path:
    (folder / "prompts").mkdir()
    (folder / "prompts/desk.txt").write_text("You are at the desk.\n" * 50)
    (folder / "table.json").write_text(
        json.dumps({f"book-{number}": number for number in range(2000)})
    )
    (folder / "bot.py").write_text(BOT)
    shutil.copytree(
        HERE / "desk_agent", folder / "desk_agent", ignore=shutil.ignore_patterns("__pycache__")
    )
    return folder


class UntracedSetting(AgentSetting):
    """Of a worker that reports no inputs."""

    def top(self) -> str:
        return ""


def cpu_s(
    folder: Path, driver: str, options: dict[str, str], *, trials: int, traced: bool
) -> float:
    """CPU seconds of a worker from its start to its end."""
    row = DRIVERS[driver]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    setting = (AgentSetting if traced else UntracedSetting)(
        root=str(folder),
        world=InstallSetup(
            environment=environment, cache=str(folder / "cache"), log=lambda _: None
        ),
        limits=AgentLimits(workers=1, sessions=1),
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    agent = row.open(row.options.model_validate(options), setting)
    try:
        for number in range(trials):
            case = Case(case_id=f"case_{number}")
            with agent.converse(
                case, TrialKey(suite="bench", case_id=case.case_id)
            ) as conversation:
                conversation.send(
                    Content(role="user", parts=(Text(text=f"Where is book {number}?"),))
                )
        asked = agent.inputs()
    finally:
        agent.close()
    assert (asked is not None) is traced
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(
    folder: Path, driver: str, options: dict[str, str], *, rounds: int, trials: int
) -> float:
    """The ratio of the medians; which of the two comes first takes turns."""
    cpu_s(folder, driver, options, trials=1, traced=True)  # compiles what is imported
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        for traced in (number % 2 == 0, number % 2 == 1):
            taken[traced].append(cpu_s(folder, driver, options, trials=trials, traced=traced))
    ratio = round(median(taken[True]) / median(taken[False]), 3)
    print(
        f"{driver:>8}  with {median(taken[True]):.3f} s  without {median(taken[False]):.3f} s  ratio {ratio}"
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description="What tracing of inputs costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--trials", type=int, default=32)
    chosen = parser.parse_args()
    agents = {"python": {"call": "bot:reply", "python": sys.executable}}
    if ADK_PYTHON.exists():
        agents["adk"] = {"path": "desk_agent", "python": str(ADK_PYTHON)}
    with tempfile.TemporaryDirectory() as name:
        folder = workplace(Path(name))
        figures = {
            f"{driver}_cpu_ratio": compare(
                folder, driver, options, rounds=chosen.rounds, trials=chosen.trials
            )
            for driver, options in agents.items()
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
