"""The shape of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evalgate.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """One row of `evalgate.reports.RENDERERS`: one Report in, one text out; `publish` writes the file."""

    name: str
    file_name: str
    render: Callable[[Report], str]
