"""The verdict as the documentation predicts it, for any combination of cases and rules: the word of
each case, the exit code, and the same of every report, of the run's report, its repetition and its
shards."""

from __future__ import annotations

import datetime as dt
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import junitparser
import pytest
from builders.gated_repository import Repository
from builders.nightly import NIGHTLY
from hypothesis import HealthCheck, example, given, settings, strategies as st

pytestmark = pytest.mark.integration

ALERTS = {"pass": "TIP", "fail": "CAUTION", "not measured": "WARNING", "inconclusive": "IMPORTANT"}
FAIL_ON = ("threshold", "regression", "not_measured")


class Fate(NamedTuple):
    """What becomes of a case. `head`, `base`: passes, fails or crashes there, None if that side
    does not have it."""

    head: str | None
    base: str | None
    quarantined: bool = False

    @property
    def is_spared(self) -> bool:
        """Quarantined by the base, which has to know the case."""
        return self.quarantined and self.base is not None

    @property
    def word(self) -> str:
        words = {"fails": "fail", "passes": "pass", "crashes": "not measured"}
        return "quarantined" if self.is_spared else words[self.head or ""]

    @property
    def is_worse(self) -> bool:
        return not self.is_spared and self.base == "passes" and self.head in ("fails", "crashes")


ANCHOR = Fate("passes", "passes")
"""A case that both sides have, so that there is something to compare."""
FATES = st.builds(
    Fate,
    st.sampled_from(["passes", "passes", "fails", "crashes", None]),
    st.sampled_from(["passes", "passes", "fails", None]),
    st.booleans(),
)


def expected_code(fates: list[Fate], rule: str, fail_on: tuple[str, ...]) -> int:
    """By docs/statistics.md and docs/action.md; every outcome here is certain."""
    words = [fate.word for fate in fates if fate.head]
    failures = [fate for fate in fates if fate.head and fate.word == "fail"]
    if rule == "new":  # what the base fails, too, is tolerated unless something else blocks
        failures = [fate for fate in failures if fate.base != "fails"]
    is_worse = rule != "all" and any(fate.is_worse for fate in fates)  # nothing is rerun by `all`
    if (failures and "threshold" in fail_on) or (is_worse and "regression" in fail_on):
        return 1
    return 3 if "not measured" in words and "not_measured" in fail_on else 0


def made_in(folder: Path, fates: list[Fate], **rules: Any) -> Repository:
    repo = Repository(folder / "repo", folder / "asked.log")
    repo.reuses = True
    repo.write(".gitignore", "evalgate-report/\nparts/\nother/\n")
    until = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=30)).isoformat()
    quarantine = [
        {"case": f"desk.evalset.json:case_{number}", "owner": "@maria", "until": until}
        for number, fate in enumerate(fates)
        if fate.quarantined
    ]
    repo.gate_file(quarantine=quarantine, **rules)
    for side in ("base", "head"):
        outcomes: dict[int, str] = {
            number: outcome
            for number, fate in enumerate(fates)
            if (outcome := getattr(fate, side)) is not None
        }
        repo.cases(*outcomes)
        repo.agent(side, wrong=tuple(key for key, word in outcomes.items() if word == "fails"))
        crashing = [key for key, word in outcomes.items() if word == "crashes"]
        text = (repo.root / "agent.py").read_text()
        crash = f"            if number in {crashing}: os._exit(3)\n"
        repo.write("agent.py", re.sub(r"^ +answer =", rf"{crash}\g<0>", text, flags=re.MULTILINE))
        repo.commit(side)
        if side == "base":
            repo.git("checkout", "-qb", "change")
    return repo


def words_of(repo: Repository, said: str, folder: str = "evalgate-report") -> dict[str, str]:
    """The word of each case, on which all reports in the folder agree; and so does the first line
    with the verdict."""
    path = repo.root / folder
    results = json.loads((path / "results.json").read_text())
    shown = repo.call("show", "--results", f"{folder}/results.json")[1].splitlines()
    rows = [re.split(r"  +", line) for line in shown if "  " in line][1:]
    words = {row[1]: row[0] for row in rows}
    assert words.keys() == {case["case_id"] for case in results["suites"][0]["cases"]}
    names = {"pass": "passed", "fail": "failed"}
    counts = Counter(names.get(word, word) for word in words.values())
    for text in (said, (path / "comment.md").read_text(), (path / "summary.md").read_text()):
        line = next(line for line in text.splitlines() if re.match(r"\**\d+\** cases?: ", line))
        found = re.findall(r"\b(\d+)\** (passed|failed|flaky|quarantined|not measured)", line)
        assert {word: int(count) for count, word in found if count != "0"} == counts, line
    kind = results["verdict"]["kind"].replace("_", " ")
    # a failure that blocks nothing is no alarm
    is_calm = kind == "fail" and not results["verdict"].get("blocked_by")
    comment = (path / "comment.md").read_text()
    assert comment.startswith(f"> [!{'WARNING' if is_calm else ALERTS[kind]}]"), kind
    assert f"\n{kind.upper()}" in said
    tags = {
        case.name: type(case.result[0]).__name__ if case.result else ""
        for suite in junitparser.JUnitXml.fromfile(str(path / "junit.xml"))
        for case in suite
        if case.name in words
    }
    assert tags.keys() == words.keys()
    for case, word in words.items():
        allowed = {"pass": "", "fail": "Failure Skipped", "not measured": "Error"}
        assert tags[case] in allowed.get(word, "Skipped").split(" ") or word == "quarantined"
    return words


@given(
    st.lists(FATES, min_size=1, max_size=4),
    st.sampled_from(
        [
            ("confirmed", FAIL_ON),
            ("new", FAIL_ON),
            ("all", FAIL_ON),
            ("confirmed", FAIL_ON[:1]),
            ("new", FAIL_ON[1:]),
        ]
    ),
)
# a report of a run takes a new case for new, and a deleted one for deleted
@example([Fate("passes", None), Fate(None, "passes")], ("confirmed", FAIL_ON))
# a crash is worse, and its case is not measured
@example([Fate("crashes", "passes"), Fate("fails", "passes", True)], ("new", FAIL_ON[1:]))
@settings(
    max_examples=30 if NIGHTLY else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_a_run_says_what_the_documentation_predicts(
    fates: list[Fate], rules: tuple[str, tuple[str, ...]]
) -> None:
    fates = [*fates, ANCHOR]
    rule, fail_on = rules
    with tempfile.TemporaryDirectory() as folder:
        repo = made_in(Path(folder).resolve(), fates, threshold=rule, fail_on=fail_on)
        code, said = repo.run()
        words = {f"case_{number}": fate.word for number, fate in enumerate(fates) if fate.head}
        assert (code, words_of(repo, said)) == (expected_code(fates, rule, fail_on), words), said
        deleted = [
            f"case_{number}" for number, fate in enumerate(fates) if fate.base and not fate.head
        ]
        assert all(f"`{case}`" in repo.comment() for case in deleted)

        again, _ = repo.call("report", "evalgate-report", "--output", "other")
        junits = [
            re.sub(r" time=\S*", "", (repo.root / name / "junit.xml").read_text())
            for name in ("evalgate-report", "other")
        ]
        # the checkout's quarantine counts for a report, also of cases that only head has
        if all(fate.is_spared == fate.quarantined for fate in fates):
            assert (again, junits[1]) == (code, junits[0])

        repeated, said = repo.run("--output", "other")
        assert (repeated, words_of(repo, said, "other")) == (code, words), said
        # a run of an agent that failed is not reused
        crashes = any("crashes" in (fate.head, fate.base) for fate in fates)
        assert crashes or not repo.asked("head") + repo.asked("base")

        for part in ("1", "2"):
            repo.run("--shard", f"{part}/2", "--output", f"parts/{part}", "--fresh")
        merged, said = repo.call("merge", "parts", "--output", "other")
        assert (merged, words_of(repo, said, "other")) == (code, words), said
