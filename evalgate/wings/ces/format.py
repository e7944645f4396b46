"""The CES files of a checkout, recognized by their content: first in the folders of an export, then
in all others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse

from evalgate import agents, errors
from evalgate.config.settings import Settings
from evalgate.discovery import walk
from evalgate.errors import Place, Problem
from evalgate.formats.base import Format, FormatFiles, SearchedTree
from evalgate.model import AgentUse, Case, CriterionUse, EvalSet, Suite
from evalgate.simulation import user
from evalgate.text import plain, words
from evalgate.values import frozen_dataclass, without
from . import cases, outcomes, read
from .cxas import Simulation, ToolTest
from .read import Kind, Resource
from .shapes import Evaluation, EvaluationDataset, Golden, Scenario

MOST_SNIFFED = 2000
"""The most files that are opened; files in folders of CES come first."""
HEAD_BYTES = 65_536
LARGEST_BYTES = 16 * 1024 * 1024
FOLDERS = frozenset({*read.COLLECTIONS, "evals"})


def kind_at(tree: SearchedTree, path: str) -> Kind | None:
    """The kind of a file by its first bytes; None if it is not a CES file."""
    head = walk.read_head(tree.root, path, size=HEAD_BYTES)
    return read.kind_of(head.decode("utf-8", "replace"), file=path)


@frozen_dataclass
class CesLibrary(FormatFiles):
    """The chosen CES files with their problems, and the files that apply to them."""

    library: read.Library
    problems: tuple[Problem, ...] = ()
    noun = "CES evaluation"

    def files(self) -> Collection[str]:
        """The chosen files, and the files that apply to them."""
        return self.library.all_files.keys()

    def eval_sets(
        self, selected_ids: Mapping[str, Sequence[str]]
    ) -> tuple[Mapping[str, EvalSet], tuple[Problem, ...]]:
        """Evaluations, goldens and simulations; no tool tests, since no driver has a tool alone."""
        sets, set_problems = cases.eval_sets(self.library, selected_ids=selected_ids)
        deciding_kinds = (*cases.RUN, Kind.APP)
        problems = [
            problem
            for file, reading in self.library.all_files.items()
            for problem in self.problems
            if reading.kind in deciding_kinds
            and problem.place is not None
            and problem.place.file == file
        ]
        problems += set_problems
        tests = self.library.of(Kind.TOOL_TESTS)
        if tests:
            message = f"{words.counted(len(tests), 'tool test')} found and not run: evalgate runs agents, not their tools alone"
            hint = "`evalgate list` shows them, `evalgate validate` checks them."
            problems.append(errors.warning("ces-not-run", message, tests[0].place, hint))
        return sets, tuple(problems)

    def holds_cases(self, file: str) -> bool:
        """True if files of this kind run."""
        return file in self.library.readings and self.library.readings[file].kind in cases.RUN

    def criteria_of(self, cases_of_file: Iterable[Case], agent: AgentUse) -> list[CriterionUse]:
        """The criteria that the evaluations name; for a scenario also one for its end, since CES
        allows an unfinished conversation. If the platform runs them, only its outcome decides."""
        listed = tuple(cases_of_file)
        used_names = {name for case in listed for name in case.criteria or ()}
        is_led = agents.is_led(agent)
        uses = [
            CriterionUse(name=name, threshold=None, informational=True)
            if is_led or name == outcomes.RUBRICS
            else CriterionUse(name=name, threshold=1.0)
            for name in outcomes.CRITERIA
            if name in used_names
        ]
        if is_led:
            return [CriterionUse(name=outcomes.PLATFORM, threshold=1.0), *uses]
        if any(case.scenario is not None for case in listed):
            uses.append(CriterionUse(name=user.ENDED, threshold=None, informational=True))
        return uses

    def evaluation_count(self) -> int:
        """The number of evaluations, including tool tests."""
        return len(self.library.of(Kind.EVALUATION, *read.CXAS))

    def lines(self, *, measured_files: Collection[str]) -> Iterator[str]:
        """Each file with its contents."""
        for file, reading in self.library.readings.items():
            if file in measured_files:
                continue
            is_ready = any(
                not cases.not_run_reason(resource.message) for resource in reading.resources
            )
            reason = "no agent" if reading.kind in cases.RUN and is_ready else "not run"
            yield from (file, f"  CES       {reading.kind} ({reason})")
            if reading.app is not None and reading.app.evaluation_metrics_thresholds is not None:
                yield "    - thresholds of the app"
            yield from (
                f"    - {resource.title} ({described(resource)})" for resource in reading.resources
            )


def described(resource: Resource) -> str:
    """A CES resource in a few words."""
    match resource.message:
        case Evaluation(golden=Golden() as golden):
            description = f"golden, {words.counted(len(golden.turns), 'turn')}"
        case Evaluation(scenario=Scenario()):
            description = "scenario"
        case Simulation(steps=steps):
            description = f"simulation, {words.counted(len(steps), 'goal')}"
        case ToolTest(tool=tool):
            description = f"tool test of {tool}"
        case EvaluationDataset(evaluations=evaluations):
            description = f"dataset, {words.counted(len(evaluations), 'evaluation')}"
        case _:
            description = str(resource.kind)
    return ", ".join((description, *getattr(resource.message, "tags", ())))


class CesFormat(Format):
    """Evaluations of Customer Engagement Suite."""

    name = "CES"

    def is_evaluation_file(self, path: str) -> bool:
        """True for a file in the evaluation folders of an export."""
        return read.kind_by_folder(path) is not None

    def find(self, tree: SearchedTree, *, named_files: Iterable[str] = ()) -> tuple[str, ...]:
        """The CES files of the tree and those that the user named, by their content. Files among
        the evaluations of an app also count by their place, so that a typing error does not hide
        one: a file that is not an evaluation is an error there."""
        listed = dict.fromkeys((*named_files, *tree.other_yaml, *tree.other_json))
        first_in_folders = sorted(listed, key=lambda path: FOLDERS.isdisjoint(path.split("/")))
        looked = filterfalse(tree.is_excluded, first_in_folders[:MOST_SNIFFED])
        ces_files = {path for path in looked if kind_at(tree, path) is not None}
        # the folders of apps that have evaluations or settings for them
        homes = {
            read.app_folder(path)
            for path in ces_files
            if read.stem(path) == "app" or read.kind_by_folder(path) is not None
        }
        at_home = (
            path
            for path in listed
            if (read.kind_by_folder(path) is not None or "evaluations" in path.split("/")[:-1])
            and read.app_folder(path) in homes
        )
        return tuple(sorted(ces_files.union(filterfalse(tree.is_excluded, at_home))))

    def read(
        self, tree: SearchedTree, files: Collection[str], *, chosen: Collection[str]
    ) -> CesLibrary:
        """Read the `chosen` files, with their problems and those of the files that apply to them.
        They may refer to any of the `files`."""
        texts = dict[str, str]()
        problems = list[Problem]()
        for key in files if chosen else ():
            text = plain.decode(tree.read(key, largest=LARGEST_BYTES), file=key)
            if isinstance(text, Problem):
                problems.append(text)
            else:
                texts[key] = text
        ces_library = read.library(texts)
        readings = ces_library.readings
        apps = {read.app_folder(file) for file in chosen}
        reported_files = {
            *chosen,
            *(
                file
                for file, reading in readings.items()
                if reading.kind in read.APPLIES and read.app_folder(file) in apps
            ),
        }
        beside = without(readings, chosen)
        return CesLibrary(
            library=read.Library(readings=without(readings, beside), beside=beside),
            problems=tuple(
                problem
                for problem in (*problems, *ces_library.problems)
                if problem.place and problem.place.file in reported_files
            ),
        )

    def why_unchanged(self, text: str, *, file: str) -> str:
        """The reason for an evaluation, which only people and assistants edit; otherwise ""."""
        reason = "it is a CES evaluation: change its file, or let an assistant do so (docs/ces.md)"
        return reason if read.kind_of(text, file=file) in cases.RUN else ""

    def find_problems(self, settings: Settings, suites: Sequence[Suite]) -> Iterator[Problem]:
        """With `on-platform`, the files whose agent is not an app."""
        for suite in suites if settings.on_platform else ():
            if not agents.is_led(suite.agent):
                message = "no platform can run it: its agent is not one of the driver `ces`"
                yield errors.error("platform-missing", message, Place(suite.key))

    def differences(self, base: Case, head: Case) -> list[str] | None:
        """See `cases.differences`."""
        if base.ces is not None and head.ces is not None:
            return cases.differences(base, head)
        return None


FORMAT = CesFormat()
