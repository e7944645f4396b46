"""The recipes of CONTRIBUTING.md, walked in a copy of the project: these files, no others, and the
gate runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import once
from builders.scratch_tree import PROJECT, ScratchTree
from builders.zygotes import Zygote

from evalgate.model import FailureKind, Reason
from tests.integration.test_judged_run import Gemini, gemini

pytestmark = pytest.mark.integration

__all__ = ["gemini"]


POLITE = '''"""politeness_v1: the share of turns whose answer a judge finds polite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalgate.criteria import judged
from evalgate.criteria.base import Criterion, CriterionServices, CriterionSpec, Verdicts
from evalgate.criteria.judged import Inquiry, JudgedOptions
from evalgate.judges import prompting
from evalgate.model import CriterionUse, TrialView, Grade, Need, Reason, not_evaluated

VERSION: Final = "1"
LABELS: Final[Mapping[str, bool]] = {"valid": True, "invalid": False}
RULES = "You decide whether an answer is polite: valid if it is, invalid if it is not."
REPLY = \'Reply with one JSON object: {"rationale": "...", "verdict": "valid"}\'


def build(options: JudgedOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion with its options."""
    return judged.with_judge(options, use, services, grade)


def grade(evidence: TrialView, *, ask: Inquiry) -> Grade:
    """The share of polite answers."""
    ballots = []
    for turn in evidence.actual:
        question = prompting.build_question(
            rules=RULES,
            reply=REPLY,
            pieces={"agent_answer": prompting.answer_of(turn)},
            task="Is the text in agent_answer polite?",
            version=VERSION,
            labels=LABELS,
        )
        ballots.append(judged.sampled(ask, question))
    results = ask.panel.vote_all(ballots)
    rows = [
        judged.judged_turn(result, turn=number) for number, result in enumerate(results, start=1)
    ]
    nothing = not_evaluated(Reason.NOTHING_RECORDED, "no_turn_to_judge")
    return judged.conclude(rows, nothing=nothing)


SPEC = CriterionSpec(
    name="politeness_v1",
    summary="share of answers that a judge finds polite",
    options=JudgedOptions,
    build=build,
    needs=frozenset({Need.JUDGE}),
    is_beyond_adk=True,
    verdicts=Verdicts(labels=LABELS, prompt_version=VERSION),
)
'''
POLITE_PAGE = "# politeness_v1\n\nThe share of polite answers. Options: `judge_model_options`, `exhaustive`.\n"


def add_judged_criterion(tree: ScratchTree) -> None:
    tree.write("evalgate/criteria/politeness_v1.py", POLITE)
    tree.replace(
        "evalgate/criteria/__init__.py",
        ("    informational,\n", "    informational,\n    politeness_v1,\n"),
        (
            "        *informational.SPECS,\n",
            "        *informational.SPECS,\n        politeness_v1.SPEC,\n",
        ),
    )
    tree.write("docs/criteria/politeness_v1.md", POLITE_PAGE)


def test_a_judged_criterion(tree: ScratchTree, gemini: Gemini) -> None:
    tree.evaluate({"politeness_v1": 1.0})
    with (tree.repository / "evalgate.yml").open("a", encoding="utf-8") as rules:
        rules.write(f"judge: {{base_url: '{gemini.url}', api_key_env: JUDGE_KEY}}\n")
    done = tree.gate("run", "--cache", str(tree.root / "cache"), JUDGE_KEY="a-key")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree.grades()["politeness_v1"]["value"] == 1.0
    assert all("Is the text in agent_answer polite?" in prompt for prompt in gemini.prompts)
    assert len(gemini.prompts) == 3  # five samples agree after three
    assert "politeness_v1" in tree.report("comment.md")


SHORT = '''"""short_answers: the share of answers with at most so many words."""

from __future__ import annotations

import functools

from pydantic import Field

from evalgate.criteria.base import Criterion, CriterionServices, CriterionSpec
from evalgate.model import CriterionUse, TrialView, Finding, Grade, Reason, Score, not_evaluated, turns
from evalgate.model.shapes import Wire


class Options(Wire):
    """The object form without its threshold."""

    words: int = Field(default=20, ge=1)


def build(options: Options, _use: CriterionUse, _services: CriterionServices) -> Criterion:
    """The criterion with its options."""
    return functools.partial(grade, options=options)


def grade(evidence: TrialView, *, options: Options) -> Grade:
    """1.0 for each turn with a short answer, else 0.0; the score is their mean."""
    if not evidence.actual:
        return not_evaluated(Reason.NOTHING_RECORDED, "no_turn_to_judge")
    counts = [len(turns.answer(turn).split()) for turn in evidence.actual]
    values = tuple(float(count <= options.words) for count in counts)
    found = tuple(
        Finding(text=f"{count} words, at most {options.words} are wanted", turn=number)
        for number, count in enumerate(counts, start=1)
        if count > options.words
    )
    return Score(value=turns.mean(values), turns=values, findings=found)


SPEC = CriterionSpec(
    name="short_answers",
    summary="share of answers that are short",
    options=Options,
    build=build,
    is_beyond_adk=True,
)
'''


def add_criterion(tree: ScratchTree) -> None:
    tree.write("evalgate/criteria/short_answers.py", SHORT)
    tree.replace(
        "evalgate/criteria/__init__.py",
        ("    rubric_based,\n", "    rubric_based,\n    short_answers,\n"),
        (
            "        *informational.SPECS,\n",
            "        short_answers.SPEC,\n        *informational.SPECS,\n",
        ),
    )
    tree.write(
        "docs/criteria/short_answers.md",
        "# short_answers\n\nShort answers: at most `words` words.\n",
    )


def test_a_computed_criterion(tree: ScratchTree) -> None:
    tree.evaluate({"short_answers": 1.0})
    done = tree.gate("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree.grades()["short_answers"]["value"] == 1.0
    tree.evaluate({"short_answers": {"threshold": 1.0, "words": 1}})
    assert tree.gate("run").returncode == 1
    assert "2 words, at most 1 are wanted" in tree.report("comment.md")
    tree.evaluate({"short_answers": {"threshold": 1.0, "wrods": 1}})
    assert "Did you mean `words`?" in tree.gate("validate").stderr


CSV = '''"""cases.csv: a line for each case, for a spreadsheet."""

from __future__ import annotations

import csv
import io

from evalgate.model import Report
from evalgate.reports import view


def render(report: Report) -> str:
    """The id and the verdict of every case."""
    lines = io.StringIO()
    rows = csv.writer(lines, lineterminator="\\n")
    rows.writerow(("case", "verdict"))
    rows.writerows((case.case_id[:200], case.kind.value) for case in view.view_of(report).cases)
    return lines.getvalue()
'''
CSV_ROW = """        Renderer(
            name="csv",
            file_name="cases.csv",
            summary="a line for each case, for a spreadsheet",
            render=csv_report.render,
        ),
"""


def add_report(tree: ScratchTree) -> None:
    tree.write("evalgate/reports/csv_report.py", CSV)
    place = '        Renderer(\n            name="junit",'
    tree.replace(
        "evalgate/reports/__init__.py",
        ("    comment,\n", "    comment,\n    csv_report,\n"),
        (place, CSV_ROW + place),
    )


def test_a_report(tree: ScratchTree) -> None:
    assert (tree.root / "tests/golden/reports/pass/cases.csv").exists()
    assert "`cases.csv`" in (tree.root / "docs/reports.md").read_text("utf-8")
    assert "\n  csv:\n" in (tree.root / "action.yml").read_text("utf-8")

    tree.evaluate({"response_match_score": 1.0})
    done = tree.gate("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree.report("cases.csv") == "case,verdict\ngreeting,pass\n"


ECHO = '''"""The driver `echo`: says what the user says."""

import contextlib
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from evalgate.agents.base import Agent, AgentDriver, AgentSetting
from evalgate.model import Case, Content, Invocation, TrialKey


class EchoOptions(BaseModel):
    """How it answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(default="", description="What comes first.")


class EchoAgent(Agent):
    """An echo."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator["EchoAgent"]:
        yield self

    def send(self, user_content: Content) -> Invocation:
        said = "".join(getattr(part, "text", "") for part in user_content.parts)
        part = type(user_content.parts[0])(text=self._prefix + said)
        return Invocation(user_content=user_content, final_response=Content(parts=(part,), role="model"), events=())

    def finish(self) -> None:
        return None


class EchoDriver(AgentDriver):
    """An echo."""

    name = "echo"
    options = EchoOptions
    argument = "prefix"
    identity = ("prefix",)

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        assert isinstance(options, EchoOptions)
        return EchoAgent(options.prefix)
'''

ECHO_PAGE = "# echo\n\nSays what the user says, behind `prefix`. It has no [tools](../tools.md).\n"


def add_driver(tree: ScratchTree) -> None:
    tree.write("evalgate/agents/echo.py", ECHO)
    tree.replace(
        "evalgate/agents/__init__.py",
        ("import adk, command,", "import adk, command, echo,"),
        (
            "        command.CommandDriver(),\n",
            "        command.CommandDriver(),\n        echo.EchoDriver(),\n",
        ),
    )
    tree.write("docs/agents/echo.md", ECHO_PAGE)


def test_an_agent_driver(tree: ScratchTree) -> None:
    tree.evaluate({"response_match_score": 1.0}, expected="so good morning")
    good = tree.gate("run", "--agent", "echo:so ")
    assert good.returncode == 0, good.stdout + good.stderr
    bad = tree.gate("run", "--agent", "echo:not ")
    assert bad.returncode == 1, bad.stdout + bad.stderr
    assert "echo so" in tree.gate("list", "--agent", "echo:so").stdout
    (tree.repository / "evalgate.yml").write_text("agents: [{driver: echoo}]")
    assert "Did you mean `echo`?" in tree.gate("validate").stderr


SETTING = """    contact: Annotated[str, STARTER, SHOWING, DOOR, NONE] = Field(
        default="", description="Whom to ask about this gate.\\nA name or a channel."
    )
    strict: Annotated[bool"""


def add_setting(tree: ScratchTree) -> None:
    tree.replace("evalgate/config/settings.py", ("    strict: Annotated[bool", SETTING))


def test_a_setting(tree: ScratchTree) -> None:
    action = (tree.root / "action.yml").read_text("utf-8")
    assert (
        "  contact:\n    description: >-\n      Whom to ask about this gate. A name or a channel.\n"
        in action
    )
    assert "| `contact` |  | yes | yes |  |" in (tree.root / "docs/settings.md").read_text("utf-8")

    tree.evaluate({"response_match_score": 1.0})
    done = tree.gate("run", "--contact", "the desk")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--contact TEXT" in tree.gate("run", "--help").stdout
    assert "'--contact'" in tree.gate("run", "--contect", "x").stderr
    script = "from evalgate.config import load; print(load.load_settings({'contact': 'the desk'}).contact)"
    assert tree.python("-c", script).stdout == "the desk\n"


def test_a_sentence_of_the_comment(tmp_path: Path) -> None:
    tree = ScratchTree(tmp_path, copied=("evalgate",))
    tree.replace(
        "evalgate/reports/templates/comment.md.j2",
        ("All conversations: `report.html`", "More: `report.html`"),
    )
    tree.replace(
        "evalgate/reports/templates/sentences.txt.j2",
        ("The {{ view.noun }} passed.", "One {{ view.noun }}, and it passed."),
    )
    assert len(tree.written) == 2
    tree.evaluate({"response_match_score": 1.0})
    done = tree.gate("run")
    assert done.returncode == 0, done.stdout + done.stderr
    comment = tree.report("comment.md")
    assert "More: `report.html`" in comment
    assert "All conversations" not in comment
    assert "One case, and it passed." in comment
    assert "PASS: One case, and it passed." in done.stdout


def test_why_a_case_was_not_measured(tree: ScratchTree) -> None:
    """From the code in results.json to the type's member; from the message by its name among the
    sentences to where it is made."""
    tree.evaluate({"response_match_score": 1.0})
    (tree.repository / "greeting.evalset.json").rename(tree.repository / "said.json")
    tree.evaluate({"final_session_state": 1.0}, final_session_state={"greeted": True})
    done = tree.gate("run", "--agent", "replay:said.json")  # which says nothing of states
    assert done.returncode == 3, done.stdout + done.stderr
    grade = tree.grades()["final_session_state"]
    member = Reason(grade["reason"])
    sentences = (PROJECT / "evalgate/reports/templates/sentences.txt.j2").read_text("utf-8")
    (name,) = re.findall(rf"set (\w+) = \"{re.escape(grade['message'])}\"", sentences)
    (made,) = [path for path in sources() if f'"{name}"' in path.read_text("utf-8")]
    assert made == PROJECT / "evalgate/criteria/final_session_state.py"
    assert f"Reason.{member.name}" in made.read_text("utf-8")


RECIPES: dict[Callable[[ScratchTree], None], int] = {
    add_judged_criterion: 3,
    add_criterion: 3,
    add_report: 2,
    add_driver: 3,
    add_setting: 1,
}
"""What adds something, and how many files it touches."""
# of the scenarios with a base, which are dear to make, one
CONTRACTS = """
test_criteria_table and (polite or short or every)
or test_golden_reports and test_reports_read_as_reviewed[pass]
or test_reports_table and (csv and not base_ or csv-base_apart or stands or taken)
or test_agents_table and (echo or every_file or knows)
"""


def walk(folder: Path) -> None:
    """Do all that add something, then what CONTRIBUTING.md says to do afterwards."""
    tree = ScratchTree(folder)
    for add, count in RECIPES.items():
        tree.written.clear()
        add(tree)
        assert len(tree.written) == count, add
    tree.make_docs()
    files = (f"tests/contract/test_{kind}_table.py" for kind in ("criteria", "reports", "agents"))
    names = (*files, "tests/golden/reports", "-k", " ".join(CONTRACTS.split()))
    tree.contracts(*names, update_golden=True)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchTree]:
    """The copy: to make the docs takes longer than a gate."""
    tree = ScratchTree(once.made("recipes", tmp_path_factory, walk), copied=())
    tree.zygote = Zygote(sys.executable, "command_zygote.py", PYTHONPATH=str(tree.root))
    yield tree
    tree.zygote.close()


@pytest.fixture
def tree(walked: ScratchTree, tmp_path: Path) -> ScratchTree:
    return walked.beside(tmp_path)


@pytest.mark.parametrize("kind", [Reason, FailureKind])
def test_every_reason_is_made_somewhere(kind: type[Reason | FailureKind]) -> None:
    text = "".join(path.read_text("utf-8") for path in sources())
    made = set(re.findall(rf"\b{kind.__name__}\.([A-Z_]+)", text))
    assert [member.name for member in kind if member.name not in made] == []


def sources() -> list[Path]:
    """The modules of the project."""
    return sorted((PROJECT / "evalgate").rglob("*.py"))
