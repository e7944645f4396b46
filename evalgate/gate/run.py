"""A whole run, from the settings to the report, in one function."""

from __future__ import annotations

from evalgate.baseline import base as baseline_base
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.github import forks
from evalgate.model import Report
from . import decision, measure, prepare


def run(settings: Settings, context: Context) -> Report:
    """Discover, measure, compare, decide, report.

    Raises ConfigError if the repository or the base's rules forbid a run, NothingToDo if there is
    nothing to evaluate, UnavailableError if a journal cannot be written; the journal has everything
    that was measured until then."""
    if "GITHUB_EVENT_NAME" in context.environ:
        forks.refuse_event(context.environ, settings.root)
    project = prepare.discover(settings, context)
    with (
        baseline_base.open_bases(settings, project.suites, context) as bases,
        measure.open_gate_session(project, *bases, context) as session,
    ):
        measurement = measure.measure(session, context)
        report = decision.decide(measurement, session.rules, context, history=session.history)
        report = decision.publish(
            report,
            measurement,
            session.rules,
            context,
            outcomes=session.journals,
            write=session.write_files,
        )
        context.audience.present(report)  # while its conversations can be read
        session.finish(report)
        return session.history.keep(report)
