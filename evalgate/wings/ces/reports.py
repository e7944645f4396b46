"""The rows of the reports on CES evaluations. What renders them is imported when a run has such
evaluations."""

from __future__ import annotations

from evalgate.model import Report
from evalgate.reports import Renderer


def render_results(report: Report) -> str:
    """See `results.render`."""
    from . import results  # noqa: PLC0415 - most runs have no CES evaluation

    return results.render(report)


def render_agreement(report: Report) -> str:
    """See `results.render_agreement`."""
    from . import results  # noqa: PLC0415 - as above

    return results.render_agreement(report)


RENDERERS = (
    Renderer(
        name="ces",
        file_name="ces-results.json",
        summary="runs, results and metrics of CES evaluations, as CES's API has them",
        render=render_results,
        is_of_ces=True,
    ),
    Renderer(
        name="ces-agreement",
        file_name="ces-agreement.md",
        summary="outcomes of CES's platform beside evalgate's, of evaluations that it ran",
        render=render_agreement,
        is_of_ces=True,
    ),
)
