"""The reports: one Report in, text out. RENDERERS has the files; texts without a file (for stdout,
for GITHUB_OUTPUT, for a terminal) are separate."""

from collections.abc import Callable

from evalgate.extensions import Table
from evalgate.model import Report
from evalgate.values import frozen_dataclass
from . import (
    annotations as reports_annotations,
    comment,
    html_report,
    junit,
    page_data,
    sarif,
    terminal,
)


@frozen_dataclass
class Renderer:
    """One row of `evalgate.reports.RENDERERS`: one Report in, one text out; `gate.decision` writes
    the file."""

    name: str
    """In docs/reports.md, and of the action's output with the path."""
    file_name: str
    summary: str
    """What the file is, in words for the tables of docs/reports.md and of the action's outputs."""
    render: Callable[[Report], str]
    """The text of the file; "" for no file."""
    is_of_ces: bool = False
    """True if only runs of CES evaluations have the file."""


RENDERERS: Table[Renderer] = Table(
    "evalgate.reports",
    Renderer,
    (
        Renderer(
            name="junit",
            file_name="junit.xml",
            summary="the results for test reporters (Jenkins, GitLab, dorny/test-reporter and others)",
            render=junit.render,
        ),
        Renderer(
            name="comment",
            file_name="comment.md",
            summary="the pull-request comment, at most 65,536 characters (GitHub's limit)",
            render=comment.render,
        ),
        Renderer(
            name="summary",
            file_name="summary.md",
            summary="the job summary, with every case in a table, at most 1 MiB (GitHub's limit)",
            render=comment.render_summary,
        ),
        Renderer(
            name="html",
            file_name="report.html",
            summary="the HTML report, every run of every case turn by turn in a single file of at most about 50 MB",
            render=html_report.render,
        ),
        Renderer(
            name="sarif",
            file_name="findings.sarif",
            summary="unsafe answers and hallucinations for code scanning, at most 5,000 (GitHub's limit)",
            render=sarif.render,
        ),
    ),
)


render_annotations = reports_annotations.render
render_outputs = reports_annotations.render_outputs
render_summary = comment.render_summary
render_terminal = terminal.render
render_case = terminal.render_case
rewrite_texts = page_data.rewrite_texts
render_whole_case = terminal.render_whole_case
render_change = terminal.render_change
link = terminal.link
