"""Nobody is asked with a workflow's keys where a stranger's evalgate.yml says who."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from builders.build import case, suite, turn

from evalgate.config.settings import Settings
from evalgate.errors import ConfigError
from evalgate.model import Case, ConversationScenario, CriterionUse, Policy, Suite
from evalgate.wiring import judging, running, watching
from evalgate.wiring.bars import Bar
from evalgate.wiring.scenes import Scene

PLAIN = suite(case("c", turn("x", answer="y")))
SCENARIO = Case(case_id="s", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y"))
LED = dataclasses.replace(PLAIN, eval_set=dataclasses.replace(PLAIN.eval_set, cases=(SCENARIO,)))
JUDGED = dataclasses.replace(PLAIN, criteria=(CriterionUse(name="final_response_match_v2", threshold=0.5),))


@pytest.mark.parametrize(
    ("suites", "skip_judged", "asked"),
    [
        ((PLAIN,), True, False),
        ((JUDGED,), True, False),
        ((JUDGED,), False, True),  # as the base's rules may have it, whatever head's evalgate.yml says
        ((PLAIN, LED), True, True),  # who plays the users is asked as judges are
    ],
)
def test_nobody_is_asked_for_a_stranger(
    suites: tuple[Suite, ...],
    skip_judged: bool,
    asked: bool,
) -> None:
    choice = Settings(skip_judged=skip_judged, root=Path())
    bar = Bar(settings=choice, suites=judging.settle(suites, judging.defaults_of(choice)), policy=Policy())
    scene = Scene(environ={}, watcher=watching.PlainWatcher(io.StringIO()), may_ask=False)
    running.insist_silent(bar, dataclasses.replace(scene, may_ask=True))
    if not asked:
        running.insist_silent(bar, scene)
        return
    with pytest.raises(ConfigError, match="with this workflow's keys"):
        running.insist_silent(bar, scene)
