"""From the gate's file to a panel: what is missing is said first, and what was recorded can be
replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.judging import HeldClock, ScriptedJudge, requests, seen, votes_in

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.errors import ConfigError
from evalgate.judges import panel, rate_limit, replay
from evalgate.judges.base import SampledRequest
from evalgate.judges.clients import Clients
from evalgate.judges.panel import VotingPanel

MODEL = "gemini-2.5-flash"


def opened(
    judge: ScriptedJudge, defaults: JudgeRule, cache: Path | None = None, **options: Any
) -> VotingPanel:
    drivers = {"gemini": judge, "openai": judge, "replay": replay.DRIVER}
    options = {"environment": {}, "warn": lambda _: None, **options}
    options.setdefault("limiters", rate_limit.limiters_for(defaults, HeldClock()))
    return panel.open_panel([MODEL], drivers=drivers, defaults=defaults, cache=cache, **options)


def ballot(prompt: str = "is it valid?") -> SampledRequest:
    return SampledRequest(requests=requests(prompt), parse=votes_in)


def test_what_is_missing_by_model() -> None:
    judge = ScriptedJudge(lambda _: "", lacking="set THE_KEY")
    found = Clients(
        {"gemini": judge, "openai": ScriptedJudge(lambda _: "")},
        defaults=JudgeRule(),
        environment={},
    ).missing([MODEL, "omega-1", MODEL, "gpt-4.1"])
    assert list(found) == [MODEL, "omega-1"]
    assert found[MODEL] == "set THE_KEY"


def test_a_budget_in_money_needs_prices() -> None:
    defaults = JudgeRule(budget=BudgetRule(usd=1))
    opened(ScriptedJudge(lambda _: ""), defaults).close()

    def open_unpriced(budget: BudgetRule) -> VotingPanel:
        return panel.open_panel(
            [MODEL, "qwen", "ollama/gemma3"],
            drivers={},
            defaults=JudgeRule(budget=budget),
            environment={},
            cache=None,
            warn=lambda _: None,
        )

    open_unpriced(BudgetRule(calls=5)).close()
    with pytest.raises(ConfigError, match=r"no price known for `ollama/gemma3`, `qwen`$"):
        open_unpriced(BudgetRule(usd=5))


def test_what_was_recorded_is_replayed_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    judge = ScriptedJudge(lambda asked: "valid" if asked.sample != 1 else "invalid")
    recording = opened(judge, JudgeRule(record=str(path)))
    recorded = recording.vote(ballot())
    recording.close()
    nobody = ScriptedJudge(lambda _: "<unauthorized>")
    replaying = opened(nobody, JudgeRule(client="replay", replay=str(path)))
    replayed, unknown = replaying.vote_all([ballot(), ballot("what else?")])
    [account] = replaying.uses()
    replaying.close()
    assert nobody.requests == []
    assert replayed.items == recorded.items
    assert seen(replayed.items[""]).passed is True
    assert (account.calls, account.cached, account.cost_usd) == (0, 4, None)
    assert "record it once with an API key" in seen(unknown.items[""]).message


def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be recorded"):
        opened(
            ScriptedJudge(lambda _: ""), JudgeRule(record=str(tmp_path / "file" / "judge.jsonl"))
        )
