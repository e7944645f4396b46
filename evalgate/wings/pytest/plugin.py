"""Evaluation files as pytest tests: each case is an item, and one run of the gate measures all
cases of a session. Off by default (to enable it: `evalgate = true`, or `--evalgate`); see
docs/pytest.md.

pytest loads this module wherever evalgate is installed, so it imports nothing of evalgate before a
test needs it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalgate.values import JsonObject, grouped

if TYPE_CHECKING:
    from evalgate.discovery.project import Project
    from evalgate.errors import EvalgateError
    from evalgate.model import Report

SUFFIXES = (".test.json", ".evalset.json")
OUTPUT = "evalgate-report"
PASSED = "passed"
FAILED = "failed"
NOT_BLOCKING = "not_blocking"
NOT_MEASURED = "not_measured"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two switches and the settings."""
    group = parser.getgroup("evalgate")
    group.addoption(
        "--evalgate", action="store_true", help="Collect agent evaluation files as tests."
    )
    parser.addini("evalgate", "Collect agent evaluation files as tests.", type="bool")
    parser.addini("evalgate_settings", "Settings of evalgate, NAME=VALUE a line.", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if it is enabled."""
    if config.getoption("evalgate") or config.getini("evalgate"):
        config.pluginmanager.register(Evaluations(config), "evalgate-evaluations")


def pytest_runtest_logfinish() -> None:
    """Call `guest.forget_moved` when a test and its fixtures are over."""
    guest = sys.modules.get("evalgate.wings.pytest.guest")
    if guest is not None:
        guest.forget_moved()


class Evaluations:
    """The evaluation files of one session, and the run that gives each case its outcome."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: dict[str, list[str]] = {}
        self.verdicts: list[str] = []
        self._project: Project | None = None

    def settings(self) -> JsonObject:
        """The settings from pytest. Raises UsageError."""
        options = {"baseline": "none", "output": OUTPUT}
        for text in self.config.getini("evalgate_settings"):
            name, equals, setting = text.partition("=")
            if not equals:
                raise pytest.UsageError(
                    f"evalgate: `{text}` is not a setting; write NAME=VALUE, as `runs=3`"
                )
            options[name.strip().replace("-", "_")] = setting.strip()
        return options

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Collect an evaluation file, by its name."""
        if not file_path.name.endswith(SUFFIXES):
            return None
        file = EvaluationFile.from_parent(parent, path=file_path)
        file.evaluations = self
        return file

    def project(self) -> Project:
        """The project found in the repository, read once. Raises UsageError if a setting is
        invalid."""
        if self._project is None:
            import evalgate

            try:
                self._project = evalgate.discover(self.config.rootpath, **self.settings())
            except evalgate.EvalgateError as exc:
                raise pytest.UsageError(f"evalgate: {_error_text(exc)}") from exc
        return self._project

    def measure(self, items: Sequence[EvaluationCase]) -> None:
        """Run all cases of the session once. With pytest-xdist, the first process runs them for
        all."""
        if self.outcomes:
            return
        worker = getattr(self.config, "workerinput", None)
        if worker is None:
            summary = self._run(items)
        else:
            from filelock import FileLock

            shared_folder = Path(self.config._tmp_path_factory.getbasetemp()).parent  # type: ignore[attr-defined]  # noqa: SLF001 - as pytest-xdist documents it
            result_file = shared_folder / f"evalgate-{worker['testrunuid']}.json"
            with FileLock(f"{result_file}.lock"):
                if not result_file.exists():
                    part_file = result_file.with_suffix(".part")
                    part_file.write_text(json.dumps(self._run(items)), "utf-8")
                    part_file.replace(result_file)
                summary = json.loads(result_file.read_text("utf-8"))
            self.config.workeroutput["evalgate"] = summary["verdict"]  # type: ignore[attr-defined] # set by pytest-xdist
        self.outcomes = summary["outcomes"]
        self.verdicts.append(summary["verdict"])

    def _run(self, items: Sequence[EvaluationCase]) -> JsonObject:
        """`outcomes`: the outcome of each item, with its text. `verdict`: the reason why the gate
        blocks, "" if it does not."""
        import evalgate
        from evalgate.config.context import Audience
        from evalgate.gate import prepare

        outcomes: dict[str, list[str]] = {}
        try:
            all_ids = {
                suite.key: [case.case_id for case in suite.cases] for suite in self.project().suites
            }
            # whole files if all of their cases are wanted, or an id has a comma, which no selection
            # can name
            paths = [
                suite
                if len(ids) == len(all_ids[suite]) or "," in "".join(ids)
                else f"{suite}:{','.join(ids)}"
                for suite, ids in grouped((item.suite, item.case_id) for item in items).items()
            ]
            settings = evalgate.load_settings(self.config.rootpath, **self.settings(), paths=paths)
            audience = Audience(
                present=lambda report: outcomes.update(item_outcomes(report, items))
            )
            context = prepare.make_context(settings, audience=audience, keep=True)
            report = evalgate.run(settings, context)
        except evalgate.EvalgateError as exc:
            outcomes = {item.nodeid: [NOT_MEASURED, _error_text(exc)] for item in items}
            return {"outcomes": outcomes, "verdict": ""}
        report_line = (
            f"\nReport: {os.path.relpath(report.files['html'])}" if "html" in report.files else ""
        )
        verdict = f"{report.verdict.reason}{report_line}" if report.exit_code else ""
        return {"outcomes": outcomes, "verdict": verdict}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the verdict of a process of pytest-xdist that ends."""
        if "evalgate" in getattr(node, "workeroutput", {}):
            self.verdicts.append(node.workeroutput["evalgate"])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session also for rules over all cases, such as `pass-rate`."""
        if any(self.verdicts) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdict if it blocks."""
        for reason in sorted({*filter(None, self.verdicts)}):
            terminalreporter.section("evalgate", red=True)
            terminalreporter.line(reason)


def _error_text(error: EvalgateError) -> str:
    return "\n".join(filter(None, [str(error), *map(str, error.problems), error.hint]))


def item_outcomes(
    report: Report, items: Sequence[EvaluationCase]
) -> Iterator[tuple[str, list[str]]]:
    """The node id of each item, with its outcome and the text that explains it."""
    from evalgate import reports
    from evalgate.model import VerdictKind

    cases = {case.key: (suite, case) for suite in report.verdict.suites for case in suite.cases}
    for item in items:
        suite, case = cases.get((item.suite, item.case_id), (None, None))
        if suite is None or case is None:
            yield item.nodeid, [NOT_MEASURED, "the run has no result for this case"]
        elif case.kind is VerdictKind.PASS:
            yield item.nodeid, [PASSED, ""]
        else:
            text = reports.render_case(report, case.key)
            is_failure = case.kind is VerdictKind.FAIL
            outcome = FAILED if is_failure else NOT_MEASURED
            if case.exemption or (
                is_failure and (suite.advisory or suite.kind is VerdictKind.PASS)
            ):
                outcome = NOT_BLOCKING
            yield item.nodeid, [outcome, text]


class EvaluationFile(pytest.File):
    """One evaluation file with its cases."""

    evaluations: Evaluations

    def collect(self) -> Iterator[pytest.Item]:
        """Its cases in order; none if evalgate.yml excludes it. Raises CollectError if it is
        broken."""
        from evalgate.errors import errors_in

        project = self.evaluations.project()
        name = Path(os.path.relpath(self.path, self.config.rootpath)).as_posix()
        suite = next((candidate for candidate in project.suites if candidate.key == name), None)
        if suite is None or suite.problem:
            messages = [
                str(problem)
                for problem in errors_in(project.problems)
                if problem.place and problem.place.file == name
            ]
            if messages or suite:
                raise self.CollectError("\n".join(messages) or (suite.problem if suite else ""))
            return
        for case in suite.cases:
            item = EvaluationCase.from_parent(self, name=case.case_id)
            item.suite = suite.key
            item.case_id = case.case_id
            item.evaluations = self.evaluations
            yield item


class EvaluationCase(pytest.Item):
    """One case. The first case in setup runs all of them."""

    suite: str
    case_id: str
    evaluations: Evaluations

    def setup(self) -> None:
        """Fails if the case was not measured: pytest counts that as an error, never as a pass."""
        items = [item for item in self.session.items if isinstance(item, EvaluationCase)]
        self.evaluations.measure(items)
        outcome, text = self._outcome
        if outcome == NOT_MEASURED:
            pytest.fail(text, pytrace=False)

    def runtest(self) -> None:
        """Fails if the case is below its thresholds."""
        outcome, text = self._outcome
        if outcome == FAILED:
            pytest.fail(text, pytrace=False)
        if outcome == NOT_BLOCKING:
            pytest.xfail(text)

    @property
    def _outcome(self) -> list[str]:
        return self.evaluations.outcomes.get(self.nodeid, [NOT_MEASURED, "the case was not run"])

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file and the case's name."""
        return self.path, None, self.case_id
