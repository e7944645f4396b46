"""The reports: one Report in, text out; the files stand in RENDERERS, and `publish` writes them.

What is no file is no row: annotations (lines for stdout), outputs (names and values for GITHUB_OUTPUT), the text for
a terminal.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evalgate.plugins import Renderer
from evalgate.reports import annotations, comment, html_report, junit, sarif, terminal

RENDERERS: Final[Mapping[str, Renderer]] = MappingProxyType(
    {
        row.name: row
        for row in (
            Renderer(name="junit", file_name="junit.xml", render=junit.render),
            Renderer(name="comment", file_name="comment.md", render=comment.render),
            Renderer(name="summary", file_name="summary.md", render=comment.render_summary),
            Renderer(name="html", file_name="report.html", render=html_report.render),
            Renderer(name="sarif", file_name="findings.sarif", render=sarif.render),
        )
    }
)

render_annotations = annotations.render
render_outputs = annotations.render_outputs
render_summary = comment.render_summary
render_terminal = terminal.render
