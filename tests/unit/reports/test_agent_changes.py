"""What changed in the agent: each thing in words, and all of it in one short line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from builders import build
from builders.compared_scenarios import DESK_NOW, DESK_THEN, reruns, with_agents
from builders.scenarios import SCENARIOS

from evalgate.model import AgentDescription, AgentUse, LoadedAgent, LoadedTool, Report
from evalgate.reports import agent_changes, comment, html_report, terminal, view
from evalgate.results import file
from evalgate.results.file import StoredOutcomes


def made(*agents: LoadedAgent, **more: dict[str, str]) -> AgentDescription:
    return AgentDescription(agents=agents, **more)


def agent(name: str = "desk", **more: object) -> LoadedAgent:
    return LoadedAgent(name=name, **more)  # type: ignore[arg-type]


def having(**more: object) -> AgentDescription:
    """One agent with one tool."""
    return made(agent(tools={"a": LoadedTool(**more)}))  # type: ignore[arg-type]


def told(then: AgentDescription, now: AgentDescription) -> list[str]:
    return [each.sentence() for each in agent_changes.changes_of(with_agents(reruns(), then, now))]


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (made(agent(model="a")), made(agent(model="b")), ["model of desk: a → b"]),
        # the model of the agent above it
        (made(agent(model="a")), made(agent()), ["model of desk: a → not set"]),
        # several agents that changed alike are one change
        (
            made(agent(model="a"), agent("x", model="a")),
            made(agent(model="b"), agent("x", model="b")),
            ["model of 2 agents: a → b"],
        ),
        (
            made(agent(instruction="One.\nTwo.")),
            made(agent(instruction="One.\nThree.\nFour.")),
            ["instruction of desk (2 lines)"],
        ),
        # a long line is told by its sentences
        (
            made(agent(instruction=f"{'One thing. ' * 20}Two.")),
            made(agent(instruction=f"{'One thing. ' * 20}Three.")),
            ["instruction of desk (1 line)"],
        ),
        (
            made(agent(tools={"a": LoadedTool()})),
            made(agent(tools={"b": LoadedTool()})),
            ["tool a removed", "tool b added"],
        ),
        # whose it is, where there are several
        (
            made(agent(tools={"a": LoadedTool()}), agent("x")),
            made(agent(), agent("x")),
            ["tool a of desk removed"],
        ),
        (
            having(parameters={"n": "int"}),
            having(parameters={"n": "str"}),
            ["parameters of tool a (1 line)"],
        ),
        (having(description="x"), having(description="y"), ["description of tool a (1 line)"]),
        (
            made(agent(sub_agents=("a",))),
            made(agent(sub_agents=("a", "b")), agent("b")),
            ["sub-agents of desk (1 line)", "agent b added"],
        ),
        (
            made(agent(kind="LlmAgent")),
            made(agent(kind="LoopAgent")),
            ["class of desk: LlmAgent → LoopAgent"],
        ),
        (
            made(agent(settings={"temperature": "0.2"})),
            made(agent(settings={"temperature": "1"})),
            ["temperature: 0.2 → 1"],
        ),
        (
            made(packages={"a": "1", "google-adk": "1.2", "b": "1"}),
            made(packages={"a": "2", "google-adk": "1.3", "c": "3"}),
            ["a 1 → 2", "b 1 removed", "c 3 added", "google-adk 1.2 → 1.3"],
        ),
        (
            made(files={"a.py": "1", "b.py": "1"}),
            made(files={"a.py": "2", "c.py": "1"}),
            ["a.py", "b.py (deleted)", "c.py (new)"],
        ),
        # what one side does not know is not told
        (made(agent(model="a"), packages={"a": "1"}), made(files={"a.py": "1"}), []),
        (made(agent(model="a")), made(agent(model="a")), []),
        # names are no places of a format
        (
            made(agent("{0}", model="{}")),
            made(agent("{0}", model="{x}")),
            ["model of {0}: {} → {x}"],
        ),
    ],
)
def test_a_change_in_words(
    then: AgentDescription, now: AgentDescription, expected: list[str]
) -> None:
    assert told(then, now) == expected
    assert bool(told(now, then)) is bool(expected)


def test_files_of_another_agent_are_not_compared() -> None:
    report = with_agents(reruns(), made(files={"desk.py": "1"}), made(files={"good.py": "2"}))
    assert len(agent_changes.changes_of(report)) == 2
    other = AgentUse(driver="python", options={"call": "good:answer"})
    suites = tuple(dataclasses.replace(suite, agent=other) for suite in report.run.suites)
    run = dataclasses.replace(
        report.run,
        suites=suites,
        descriptions={other.key: next(iter(report.run.descriptions.values()))},
    )
    assert agent_changes.changes_of(dataclasses.replace(report, run=run)) == ()


def test_files_of_the_same_agent_are_compared_with_stored_results() -> None:
    """A base that is not run has an absent agent, which stands for the stored one."""
    report = with_agents(reruns(), made(files={"desk.py": "1"}), made(files={"desk.py": "2"}))
    base = report.compared.base
    assert base is not None
    absent = AgentUse(driver=AgentUse.ABSENT)
    suites = tuple(dataclasses.replace(suite, agent=absent) for suite in base.suites)
    (description,) = base.descriptions.values()
    stored = dataclasses.replace(
        base, suites=suites, descriptions={**base.descriptions, absent.key: description}
    )
    comparison = dataclasses.replace(report.compared, base=stored)
    changed = dataclasses.replace(report, comparison=comparison)
    assert agent_changes.changes_of(changed) == agent_changes.changes_of(report) != ()


def sentence(then: AgentDescription, now: AgentDescription) -> str:
    return agent_changes.sentence(agent_changes.changes_of(with_agents(reruns(), then, now)))


def test_the_line_names_what_matters_and_counts_the_rest() -> None:
    assert sentence(DESK_THEN, DESK_NOW) == (
        "instruction of desk (3 lines), tool waiting_readers removed, description of tool find_book (1 line), "
        "parameters of tool renew_loan (1 line), google-adk 2.12.1 → 2.13.0 and pydantic 2.11.1 → 2.11.7"
    )
    many = {f"tool_{number}": LoadedTool() for number in range(40)}
    now = made(agent(model="b", tools=many), packages={f"p{number}": "2" for number in range(90)})
    then = made(agent(model="a"), packages={f"p{number}": "1" for number in range(90)})
    assert sentence(then, now) == (
        "model of desk: a → b, tool tool_0 added, tool tool_1 added, tool tool_2 added, 37 more changes and 90 packages"
    )
    files = {f"f{number}.py": "1" for number in range(9)}
    changed = dict.fromkeys(files, "2")
    assert (
        sentence(made(files=files), made(files=changed))
        == "f0.py, f1.py, f2.py, f3.py, f4.py and 4 more"
    )
    # a package that changed as well hides no file; what the agent is made of says more than files
    then, now = made(packages={"a": "1"}, files=files), made(packages={"a": "2"}, files=changed)
    assert sentence(then, now) == "a 1 → 2, f0.py, f1.py, f2.py, f3.py and 5 more"
    assert sentence(made(agent(model="a"), files=files), made(agent(model="b"), files=changed)) == (
        "model of desk: a → b"
    )


def test_results_keep_what_agents_are_made_of_and_the_causes(tmp_path: Path) -> None:
    report = SCENARIOS["base_regressed"]()
    path = tmp_path / "results.json"
    told = view.causes_of(view.view_of(report).cases)
    path.write_text(
        "".join(file.render_results(report, outcomes=StoredOutcomes({}, {}), causes=told))
    )
    assert file.read_results(path).run.descriptions == report.run.descriptions
    raw = json.loads(path.read_text())["causes"]
    assert [(each["status"], len(each["cases"])) for each in raw] == [
        ("new", 3),
        ("mixed results", 1),
    ]


def reports_of(report: Report) -> list[str]:
    return [
        comment.render(report),
        comment.render_summary(report),
        terminal.render(report),
        html_report.render(report),
    ]


def test_no_report_speaks_of_it_where_nothing_is_known() -> None:
    assert [
        text
        for text in reports_of(reruns())
        if "gent changed" in text or "changed in the agent" in text
    ] == []
    assert agent_changes.changes_of(build.report("fail")) == ()


def test_the_page_says_where_nothing_changed() -> None:
    page = html_report.render(with_agents(reruns(), DESK_NOW, DESK_NOW))
    assert "packages and files are the same on both sides" in page
    alike = dataclasses.replace(DESK_NOW, packages={})  # not all of it is known
    assert "are the same on both sides" not in html_report.render(
        with_agents(reruns(), alike, alike)
    )


def test_every_report_tells_it() -> None:
    found = reports_of(SCENARIOS["base_regressed"]())
    assert [
        "`waiting_readers` removed" in text.replace("<code>", "`").replace("</code>", "`")
        for text in found
    ] == [*(True, True, False, True)]
    assert "agent changed: instruction of desk (3 lines), tool waiting_readers removed" in found[2]
