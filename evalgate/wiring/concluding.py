"""From what was measured to the verdict, the reports on disk and what the process says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evalgate import __version__, publish, reports
from evalgate.calibration import apply
from evalgate.config.settings import Settings
from evalgate.errors import ExitCode, Problem
from evalgate.gate import decision
from evalgate.gate.pairing import CaseKey
from evalgate.model import Links, Policy, Report, Run, Verdict, VerdictKind
from evalgate.results import file as results_file
from evalgate.results import history
from evalgate.results.file import RawOutcomes
from evalgate.wiring import comparisons, linking, saving
from evalgate.wiring.measuring import Measured
from evalgate.wiring.saving import Past

RESULTS, BASE_RESULTS = "results.json", "base.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A finished run: what came of it, what the process says, and where everything was written."""

    report: Report
    exit_code: ExitCode
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where each side's outcomes lie: a journal, or results that were read. The base has one where it was measured."""

    head: RawOutcomes
    base: RawOutcomes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a report needs beside the measured. `by_base`: the base's rules decide."""

    settings: Settings
    problems: tuple[Problem, ...]
    links: Links
    reproduce: str
    past: Past = field(default_factory=Past)
    by_base: bool = False


def conclude(
    found: Measured, policy: Policy, ending: Ending, sources: Sources | None, *, unreliable: frozenset[CaseKey]
) -> Gated:
    """Decide and write every report; what could not be written is among the report's problems. Without `sources`
    there are results already, and none are written."""
    head = dataclasses.replace(found.head, root=linking.root_of(ending.settings.root, ending.links))
    verdict = decision.decide(
        head, policy, scales=comparisons.scales(), comparison=found.comparison, unreliable=unreliable
    )
    exit_code = exit_code_of(head, verdict)
    report = Report(
        run=head,
        verdict=verdict,
        policy=policy,
        comparison=found.comparison and dataclasses.replace(found.comparison, by_base=ending.by_base),
        trends=history.trends(ending.past.history, saving.means_of(head)),
        asked=apply.asked(head.suites, ending.settings),
        problems=ending.problems,
        links=ending.links,
        reproduce=ending.reproduce,
        version=__version__,
    )
    report = apply.with_calibration(report, ending.settings)
    output = ending.settings.root / ending.settings.output
    published = publish.write_reports(report, folder=output, renderers=reports.RENDERERS.values())
    written = {}
    if sources is not None:
        written[RESULTS] = results_file.render_results(report, outcomes=sources.head, exit_code=exit_code)
    if found.base is not None and sources is not None and sources.base is not None:
        written[BASE_RESULTS] = _base_results(found.base, report, sources.base)
    files, unwritten = dict(published.files), list(published.problems)
    for name, pieces in written.items():
        late = publish.write_file(output / name, pieces)
        if late is None:
            files[name.removesuffix(".json")] = output / name
        else:
            unwritten.append(late)
    problems = (*ending.problems, *unwritten)
    return Gated(report=dataclasses.replace(report, problems=problems), exit_code=exit_code, files=files)


def exit_code_of(run: Run, verdict: Verdict) -> ExitCode:
    """What the process says: 0 unless the policy blocks; 1 for a fail that blocks, 3 where what blocks is no
    verdict, also beside a fail that does not block; 130 for a run that was interrupted. A part of a plan, which decides
    nothing, says 3 where its agent never ran at all."""
    if not run.complete:
        return ExitCode.INTERRUPTED
    if run.shard is not None and run.trials and all(trial.failure is not None for trial in run.trials):
        return ExitCode.NOT_MEASURED
    if not verdict.blocks:
        return ExitCode.PASS
    return ExitCode.FAIL if verdict.blocked_by is VerdictKind.FAIL else ExitCode.NOT_MEASURED


def _base_results(base: Run, report: Report, outcomes: RawOutcomes) -> Iterator[str]:
    """The base's run in a file of its own, with the threshold gate's word on it."""
    verdict = decision.decide(base, report.policy, scales=comparisons.scales(), comparison=None)
    here = dataclasses.replace(base, root=report.run.root)
    own = dataclasses.replace(report, run=here, verdict=verdict, comparison=None, judged=(), problems=())
    return results_file.render_results(own, outcomes=outcomes, exit_code=exit_code_of(base, verdict))
