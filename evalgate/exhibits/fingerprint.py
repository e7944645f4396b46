"""What the numbers of a report depend on, side by side: commits, agents, environments, models, judges, dice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evalgate import words
from evalgate.model import AskedJudge, Comparison, Report, Run

UNKNOWN = "-"
SAME = "the same"
LISTED = 8
JUDGES = 20
SHA = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing by its name; `of`: the criterion that it is about. `base` is "" where there is one side only."""

    name: str
    head: str
    base: str = ""
    of: str = ""


def facts(report: Report) -> tuple[Fact, ...]:
    """All that is known; what neither side knows is left out. A commit alone is none: it stands above the cases."""
    comparison = report.comparison
    base = None if comparison is None or comparison.problem else comparison.base
    beside = base is not None
    found = [
        _fact("commit", _commit(report), "" if comparison is None else comparison.origin.commit[:SHA], beside=beside),
        _fact("agent's files", *(_codes(run) for run in (report.run, base)), beside=beside),
        _fact("environment", *(_environments(run) for run in (report.run, base)), beside=beside),
        _fact("agent's models", *(_models(run) for run in (report.run, base)), beside=beside),
        _fact("simulated user", *(_users(run) for run in (report.run, base)), beside=beside),
        *(_judge(asked, beside=beside) for asked in report.asked[:JUDGES]),
        _more_judges(len(report.asked) - JUDGES, beside=beside),
        _dice(report, comparison, beside=beside),
    ]
    known = tuple(fact for fact in found if fact is not None)
    return known if [fact.name for fact in known] != ["commit"] else ()


def _fact(name: str, head: str, base: str, *, beside: bool) -> Fact | None:
    if not (head or (base and beside)):
        return None
    if not beside:
        return Fact(name=name, head=head)
    return Fact(name=name, head=head or UNKNOWN, base=SAME if base == head else base or UNKNOWN)


def _commit(report: Report) -> str:
    return (report.links.commit or report.run.commit)[:SHA]


def _codes(run: Run | None) -> str:
    return "" if run is None else _listed(run.codes.values())


def _environments(run: Run | None) -> str:
    return "" if run is None else _listed(_environment(about) for about in run.agents.values())


def _environment(about: Mapping[str, str]) -> str:
    """`google-adk 2.13.0, Python 3.11.4, packages 1a2b3c4d5e6f7a8b`, as far as the worker told."""
    framework = " ".join(each for each in (about.get("framework", ""), about.get("framework_version", "")) if each)
    python, packages = about.get("python", ""), about.get("requirements", "")
    parts = (framework, f"Python {python}" if python else "", f"packages {packages}" if packages else "")
    return ", ".join(part for part in parts if part)


def _models(run: Run | None) -> str:
    return "" if run is None else _listed(sorted(run.models))


def _users(run: Run | None) -> str:
    if run is None:
        return ""
    led = (suite for suite in run.suites if any(case.scenario is not None for case in suite.eval_set.cases))
    return _listed(suite.simulator.model for suite in led)


def _judge(asked: AskedJudge, *, beside: bool) -> Fact:
    """`gemini-2.5-flash, 5 samples, prompt 3`: the same one judges both sides."""
    judge = asked.judge
    prompt = f"prompt {judge.prompt_version}" if judge.prompt_version else ""
    parts = (judge.model, words.counted(judge.num_samples, "sample"), prompt)
    said = ", ".join(part for part in parts if part)
    return Fact(name="judge", of=asked.criterion, head=said, base=SAME if beside else "")


def _more_judges(count: int, *, beside: bool) -> Fact | None:
    return Fact(name="judge", head=f"of {count:,} more", base=SAME if beside else "") if count > 0 else None


def _dice(report: Report, comparison: Comparison | None, *, beside: bool) -> Fact | None:
    if comparison is None or not comparison.draws:
        return None
    said = f"seed {comparison.seed}, {comparison.draws:,} draws, alpha {comparison.alpha:g}"
    version = f"evalgate {report.version}, " if report.version else ""
    return Fact(name="statistics", head=f"{version}{said}", base=SAME if beside else "")


def _listed(values: Iterable[str]) -> str:
    return words.listed(dict.fromkeys(value for value in values if value), limit=LISTED)
