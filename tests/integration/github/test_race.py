"""Two processes that write into the same comment at the same moment, fifty times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evalgate.github import layout

pytestmark = pytest.mark.integration

ROUNDS = 50
RACER = Path(__file__).parent / "racer.py"


@pytest.mark.parametrize("claims", [True, False], ids=["with claims", "without the permission for claims"])
def test_each_time_one_comment_holds_both_sections(double, claims) -> None:
    double.most_judged = 200  # of a thousand of the same kind: judging is what takes the time
    double.jitter_s = 0.004  # between reading, changing and answering
    double.denied = "" if claims else "reactions"
    rounds, haste = (ROUNDS, 40) if claims else (2, 8)  # without claims each waits to be sure
    command = [sys.executable, str(RACER), double.url]
    racers = [
        subprocess.Popen([*command, key, str(rounds), str(haste)], stderr=subprocess.PIPE) for key in ("left", "right")
    ]
    told = [racer.communicate(timeout=240)[1].decode() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], told
    by_pull: dict[int, list[str]] = {}
    for each in double.state.comments.values():
        by_pull.setdefault(each["number"], []).append(each["body"])
    assert len(by_pull) == rounds - rounds // 5
    for pull, bodies in by_pull.items():
        assert len(bodies) == 1, f"pull request {pull} has {len(bodies)} comments"
        last = pull + 1 if (pull + 1) % 5 == 0 and pull + 1 <= rounds else pull
        found = {each.key: each.headline for each in layout.parse(bodies[0], "raced")}
        assert found == {key: f"{key} in round {last}" for key in ("left", "right")}
    assert double.state.reactions == {}
    raced = [seen for seen in double.seen if seen.method == "DELETE" and "/reactions/" not in seen.target]
    assert raced, "no round had a double to remove: this was no race"
