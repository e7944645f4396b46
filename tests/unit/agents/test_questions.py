"""What workers say that they asked of the checkout: read, bounded, and put together."""

from __future__ import annotations

import json
import threading

import pytest

from evalgate.agents import protocol, worker_process
from evalgate.agents.base import AgentSetting
from evalgate.agents.pool import WorkerPool
from evalgate.agents.protocol import InputsMessage
from evalgate.agents.worker_process import Launch, Questions
from evalgate.system.python_env import InstallSetup

EVERYTHING = frozenset({"everything"})


def said(*questions: str, opaque: bool = False) -> InputsMessage:
    line = json.dumps({"type": "inputs", "questions": questions, "opaque": opaque}).encode()
    message = protocol.parse_worker_message(line)
    assert isinstance(message, InputsMessage)
    return message


@pytest.mark.parametrize(
    ("messages", "value"),
    [
        # nobody told anything
        ([], None),
        # nothing was asked
        ([said()], frozenset()),
        # of several workers, each question once
        ([said("file a"), said("file a", "name b", opaque=True), said()],
         frozenset({"file a", "name b", "names"})),
        # once all may have been asked, the rest says no more
        ([said("file a", "everything"), said("file b")],
         frozenset({"file a", "everything"})),
        # too many, at once and little by little; too long
        ([said(*(f"file {number}" for number in range(1000)))], EVERYTHING),
        ([said(*(f"file {number}" for number in range(start, start + 40))) for start in range(0, 120, 40)], EVERYTHING),
        ([said("file " + "a" * 100_000)], EVERYTHING),
    ],
)  # fmt: skip
def test_questions_are_put_together_and_bounded(
    monkeypatch: pytest.MonkeyPatch, messages: list[InputsMessage], value: frozenset[str] | None
) -> None:
    monkeypatch.setattr(worker_process, "MOST_QUESTIONS", 100)
    monkeypatch.setattr(worker_process, "MOST_CHARACTERS", 10_000)
    questions = Questions()
    for message in messages:
        questions.add(message)
    assert questions.value() == value


def test_many_threads_may_tell() -> None:
    questions = Questions()

    def tell(start: int) -> None:
        for number in range(start, start + 100):
            questions.add(said(f"file {number}"))

    threads = [threading.Thread(target=tell, args=(start,)) for start in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    value = questions.value()
    assert value is not None
    assert len(value) == 400


@pytest.mark.parametrize("questions", ["file a", [1], [["file a"]], {"file": "a"}])
def test_what_is_no_list_of_questions_is_no_message(questions: object) -> None:
    with pytest.raises(protocol.ProtocolError, match="not a valid 'inputs'"):
        protocol.parse_worker_message(
            json.dumps({"type": "inputs", "questions": questions}).encode()
        )


def test_what_metrics_asked_counts_for_their_agent() -> None:
    launch = Launch(command=("true",), cwd="/", environment={})
    setting = AgentSetting(root="/", world=InstallSetup(environment={}, cache="/nowhere", log=str))
    pool = WorkerPool(lambda: launch, setting=setting, metrics=lambda: launch)
    assert pool._metrics is not None
    pool._metrics.questions.add(said("file metric.py", opaque=True))
    assert pool.inputs() is None
    pool._workers.questions.add(said("file agent.py"))
    assert pool.inputs() == {"file agent.py", "file metric.py", "names"}
