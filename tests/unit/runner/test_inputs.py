"""What counts as read by an agent, by who saw it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from evalgate.model import AgentUse, Inputs
from evalgate.runner.inputs import SideInputs
from evalgate.system.watching import Watch
from tests.unit.runner import fakes

SUITE = fakes.suite("s", fakes.case("c"))
AGENT = SUITE.agent.key


class Seen:
    """A watch that saw these."""

    def __init__(self, *paths: str, why_lost: str = "") -> None:
        self._paths, self.why_lost = frozenset(paths), why_lost

    def accessed_paths(self) -> frozenset[str]:
        return self._paths


class Told(fakes.FakeAgent):
    """An agent whose workers told these."""

    def __init__(self, claim: frozenset[str] | None) -> None:
        super().__init__()
        self._claim = claim

    def inputs(self) -> frozenset[str] | None:  # type: ignore[override]
        return self._claim


def told(*questions: str) -> frozenset[str]:
    return frozenset(questions)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ("agent.py", "prompt.md", "data/rows.csv", "__pycache__/agent.cpython-311.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def side(top: Path, claim: frozenset[str] | None, *watches: Seen, **more: object) -> SideInputs:
    inputs = fakes.inputs_of([SUITE], Told(claim), top)
    return replace(
        inputs,
        watches=lambda: cast("tuple[Watch, ...]", watches),
        **{"trusts_workers": False, **more},
    )


CLAIM = told("file agent.py", "module agent")


@pytest.mark.parametrize(
    ("claim", "watches", "more", "questions"),
    [
        # a worker and a watch: what an import listed is asked by name; what the worker did not tell
        # counts as well
        (CLAIM, [Seen("agent.py", ".")], {}, {"file agent.py", "module agent"}),
        (
            CLAIM,
            [Seen("agent.py", "prompt.md")],
            {},
            {"file agent.py", "module agent", "file prompt.md"},
        ),
        (
            CLAIM,
            [Seen("agent.py"), Seen("data")],
            {},
            {"file agent.py", "module agent", "folder data"},
        ),
        # bytecode is the worker's to tell apart
        (CLAIM, [Seen("__pycache__/agent.cpython-311.pyc")], {}, {"file agent.py", "module agent"}),
        (CLAIM, [Seen("data/__pycache__")], {}, {"file agent.py", "module agent"}),
        # a worker that told wrong things breaks nothing
        (
            told("file ../x", "nonsense"),
            [Seen("agent.py")],
            {},
            {"file ../x", "nonsense", "file agent.py"},
        ),
        # another language, or a child that tells nothing: all names, and what was opened
        (None, [Seen("agent.py", ".")], {}, {"names", "file agent.py"}),
        (
            told("file agent.py", "names"),
            [Seen("agent.py", "data")],
            {},
            {"names", "file agent.py"},
        ),
        # nobody saw it
        (None, [], {}, {"everything"}),
        (CLAIM, [], {}, {"everything"}),
        (CLAIM, [Seen("agent.py"), Seen(why_lost="too few watches")], {}, {"everything"}),
        (None, [], {"depends_on": ("*.py", "data/**")}, {"glob *.py%0Adata/**"}),
        # at a terminal a worker's word is enough, if it started no child: editors and git read
        # there as well
        (
            CLAIM,
            [Seen("agent.py", "prompt.md")],
            {"trusts_workers": True},
            {"file agent.py", "module agent"},
        ),
        (CLAIM, [], {"trusts_workers": True}, {"file agent.py", "module agent"}),
        (told("file agent.py", "names"), [], {"trusts_workers": True}, {"everything"}),
        (None, [], {"trusts_workers": True}, {"everything"}),
    ],
)
def test_what_counts_as_read(
    top: Path,
    claim: frozenset[str] | None,
    watches: list[Seen],
    more: dict[str, object],
    questions: set[str],
) -> None:
    inputs = side(top, claim, *watches, **more).of(AGENT)
    assert set(inputs.answers) == questions
    assert inputs.environment == "v1"


def remote(top: Path, **more: object) -> tuple[SideInputs, str]:
    use = AgentUse(driver="http", options={"url": "http://x.example"})
    key = use.key
    inputs = side(top, None, **more)
    return replace(inputs, uses={key: use}, agents={key: fakes.FakeAgent()}), key


@pytest.mark.parametrize(
    ("more", "change", "is_continued", "stands"),
    [
        # a service changes without any file: it says nothing of a later run, but to that which
        # continues
        ({}, "", False, False),
        ({}, "", True, True),
        ({}, "data/rows.csv", True, True),
        # unless a person says which files it is made of
        ({"depends_on": ("*.py",)}, "", False, True),
        ({"depends_on": ("*.py",)}, "data/rows.csv", False, True),
        ({"depends_on": ("*.py",)}, "agent.py", False, False),
        ({"depends_on": ("*.py",)}, "agent.py", True, False),
    ],
)
def test_of_a_service_elsewhere_nobody_sees_what_it_is(
    top: Path, more: dict[str, object], change: str, *, is_continued: bool, stands: bool
) -> None:
    before, key = remote(top, **more)
    inputs = before.of(key)
    if change:
        (top / change).write_text("other")
    assert remote(top, **more)[0].stands(key, inputs, is_continued=is_continued) is stands


@pytest.mark.parametrize(
    ("name", "text", "stands"),
    [
        ("README.md", "new", True),
        ("agent.py", "other", False),
        ("data/more.csv", "new", False),  # its folder was listed
        ("data/rows.csv", "other", True),  # of which only the names were seen
    ],
)
def test_a_trial_stands_where_the_answers_are_the_same(
    top: Path, name: str, text: str, *, stands: bool
) -> None:
    inputs = side(top, told("file agent.py", "folder data"), Seen("agent.py")).of(AGENT)
    (top / name).write_text(text)
    assert side(top, CLAIM).stands(AGENT, inputs) is stands


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "v2"},  # other packages
        {"environment": ""},  # unknown
        {"answers": {}},
    ],
)
def test_nothing_stands_for_an_agent_of_which_nothing_is_known(
    top: Path, change: dict[str, object]
) -> None:
    inputs = side(top, CLAIM, Seen("agent.py")).of(AGENT)
    assert side(top, CLAIM).stands(AGENT, inputs)
    assert not side(top, CLAIM).stands(AGENT, replace(inputs, **change))
    assert not side(top, CLAIM).stands(AGENT, Inputs())
