"""What a turn of a simulated conversation costs as conversations grow, beside ADK's own simulator
on the same agent.

    python bench/turns.py [--turns 1,10,50,100] [--rounds 5]

Both sides talk to the same agent (a scripted model that answers in 40 words, in google-adk's
environment: .venv-adk or the interpreter in EVALGATE_TEST_ADK) with a simulated user whose model is
scripted as well, so that nobody waits. CPU is user + system, in processes that are warm. Ours: the
process that simulates and keeps the conversation; the agent's worker, which runs google-adk's
Runner whoever asks, stands beside it. ADK's: its evaluation's inference, Runner and simulator in
one process. The last line is JSON: CPU per turn in the longest conversation over that in one of 10
turns, for our part, for our part and the worker, and for ADK."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentLimits, AgentSetting, Stopwatch
from evalgate.judges.base import JudgeReply, JudgeRequest
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    ConversationScenario,
    CriteriaSource,
    EvalSet,
    SimulatorUse,
    Suite,
    Text,
    Transcript,
    TrialKey,
)
from evalgate.model.deviations import ADKS
from evalgate.runner import trials
from evalgate.runner.trials import Task
from evalgate.simulation.user import begin
from evalgate.system.python_env import InstallSetup

HERE = Path(__file__).resolve().parent
ADK_PYTHON = Path(os.environ.get("EVALGATE_TEST_ADK") or HERE.parent / ".venv-adk/bin/python")

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Talks(BaseLlm):
    model: str = "talks"

    async def generate_content_async(self, llm_request, stream=False):
        part = types.Part(text="word " * 40)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = LlmAgent(name="talker", model=Talks(), instruction="Talk.")
"""

ADK_SIDE = """
import asyncio, json, logging, os, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.adk.evaluation.conversation_scenarios import ConversationScenario
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from talker.agent import root_agent


class User(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["scripted-user"]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Tell me more about that.")]))


LLMRegistry.register(User)


async def talk(turns):
    simulator = LlmBackedUserSimulator(
        config=LlmBackedUserSimulatorConfig(model="scripted-user", max_allowed_invocations=turns),
        conversation_scenario=ConversationScenario(starting_prompt="Hello.", conversation_plan="Talk on."),
    )
    return await EvaluationGenerator._generate_inferences_from_root_agent(
        root_agent=root_agent, user_simulator=simulator
    )


def cpu():
    times = os.times()
    return times.user + times.system


asyncio.run(talk(3))
for line in sys.stdin:
    turns = int(line)
    before = cpu()
    invocations = asyncio.run(talk(turns))
    print(json.dumps({"cpu_s": cpu() - before, "turns": len(invocations)}), flush=True)
"""


class ScriptedPanel:
    """A panel whose model always says the same; it is given each whole prompt, as a client would
    send it."""

    def __init__(self) -> None:
        self.characters = 0

    def ask(self, request: JudgeRequest) -> JudgeReply:
        self.characters += len(json.dumps({"contents": [{"parts": [{"text": request.prompt}]}]}))
        return JudgeReply(parts=(Text(text="Tell me more about that."),), usage=None)

    def vote(self, ballot: Any) -> Any:
        raise NotImplementedError

    def vote_all(self, ballots: Any) -> Any:
        raise NotImplementedError


def converse(agent: Agent, turns: int) -> Transcript:
    scenario = ConversationScenario(starting_prompt="Hello.", conversation_plan="Talk on.")
    case = Case(case_id=f"talk_{turns}", scenario=scenario)
    user = begin(case, SimulatorUse(max_turns=turns), panel=ScriptedPanel(), deviations=ADKS)
    suite = Suite(
        key="bench",
        eval_set=EvalSet(eval_set_id="bench", cases=(case,)),
        criteria=(),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver="adk"),
    )
    key = TrialKey(suite=suite.key, case_id=case.case_id)
    transcript = trials.converse(agent, Task(key=key, suite=suite, case=case), user, Stopwatch())
    assert isinstance(transcript, Transcript)
    return transcript


def children_cpu(pid: int) -> float:
    """CPU seconds of all descendants that are running."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + children_cpu(
                int(child)
            )
    return total


def measure_ours(agent: Agent, turns: int) -> dict[str, float]:
    worker, before = children_cpu(os.getpid()), time.process_time()
    transcript = converse(agent, turns)
    assert len(transcript.invocations) == turns
    return {"cpu_s": time.process_time() - before, "worker_s": children_cpu(os.getpid()) - worker}


def measure_adk(child: subprocess.Popen[str], turns: int) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{turns}\n")
    child.stdin.flush()
    line = child.stdout.readline()
    if not line:
        raise SystemExit("google-adk's side ended; run it by hand to see why")
    answer = json.loads(line)
    assert answer["turns"] == turns, answer
    return float(answer["cpu_s"])


def open_agent(folder: Path) -> Agent:
    driver = DRIVERS["adk"]
    setting = AgentSetting(
        root=str(folder),
        world=InstallSetup(
            environment={"PATH": os.environ["PATH"], "HOME": str(folder)},
            cache=str(folder / "cache"),
            log=lambda _: None,
        ),
        limits=AgentLimits(workers=1, sessions=1),
    )
    options = driver.options.model_validate({"path": "talker", "python": str(ADK_PYTHON)})
    return driver.open(options, setting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--turns", default="1,10,50,100", help="ascending, 10 among them")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    lengths = [int(each) for each in options.turns.split(",")]
    if not ADK_PYTHON.exists():
        raise SystemExit(
            "no interpreter with google-adk: `make bench` sets one up, or set EVALGATE_TEST_ADK"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "talker").mkdir()
        (folder / "talker" / "__init__.py").write_text("from . import agent\n")
        (folder / "talker" / "agent.py").write_text(AGENT)
        (folder / "adk_side.py").write_text(ADK_SIDE)
        print_table(lengths, *measured(folder, lengths, rounds=options.rounds))


def measured(folder: Path, lengths: list[int], *, rounds: int) -> tuple[dict, dict, dict]:
    """Milliseconds of CPU per turn by length: ours, our worker's, ADK's; medians of alternating
    rounds."""
    ours, worker, adk = ({length: [] for length in lengths} for _ in range(3))
    child = subprocess.Popen(
        [str(ADK_PYTHON), "adk_side.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    agent = open_agent(folder)
    try:
        converse(agent, 3)
        measure_adk(child, 3)
        for _ in range(rounds):
            for length in lengths:
                times = max(1, lengths[-1] // length)
                own = [measure_ours(agent, length) for _ in range(times)]
                ours[length].append(sum(each["cpu_s"] for each in own) / times / length * 1e3)
                worker[length].append(sum(each["worker_s"] for each in own) / times / length * 1e3)
                adk[length].append(
                    sum(measure_adk(child, length) for _ in range(times)) / times / length * 1e3
                )
    finally:
        agent.close()
        child.kill()
        child.wait()
    return tuple(
        {length: median(each[length]) for length in lengths} for each in (ours, worker, adk)
    )  # type: ignore[return-value]  # three of them


def print_table(lengths: list[int], ours: dict, worker: dict, adk: dict) -> None:
    print("CPU milliseconds per turn")
    print(f"{'turns':>6} {'ours':>8} {'our worker (ADK Runner)':>24} {'ADK':>8}")
    for length in lengths:
        print(f"{length:>6} {ours[length]:>8.2f} {worker[length]:>24.2f} {adk[length]:>8.2f}")
    long = lengths[-1]
    print(
        json.dumps(
            {
                f"cpu_per_turn_{long}_over_10": round(ours[long] / ours[10], 3),
                f"with_worker_{long}_over_10": round(
                    (ours[long] + worker[long]) / (ours[10] + worker[10]), 3
                ),
                f"adk_cpu_per_turn_{long}_over_10": round(adk[long] / adk[10], 3),
            }
        )
    )


if __name__ == "__main__":
    main()
