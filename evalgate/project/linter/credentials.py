"""Checks of what criteria need from outside: keys of models and of Google Cloud."""

from __future__ import annotations

from collections.abc import Iterator

from evalgate.errors import Place, Problem
from evalgate.model import Suite
from evalgate.plugins import Need
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
VERTEX = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


def credentials_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion that asks a model or Google Cloud, and no credentials are set: it could never be measured."""
    names = setting.environment_names
    has_vertex = names.issuperset(VERTEX)
    has_key = not names.isdisjoint(KEYS)
    needing = {
        Need.JUDGE: has_key or has_vertex,
        Need.VERTEX: has_vertex or "GOOGLE_API_KEY" in names,
    }
    for need, is_met in needing.items():
        if is_met:
            continue
        for use in finding.uses_needing(suite, need, setting):
            whom = "a model as judge" if need is Need.JUDGE else "Google Cloud's evaluation service"
            keys = " or ".join(KEYS) if need is Need.JUDGE else "GOOGLE_API_KEY"
            yield finding.error(
                "credentials-missing",
                f"`{use.name}` asks {whom}, and no credentials are set",
                place=use.place or Place(file=suite.key),
                hint=f"Set {keys}, or {' and '.join(VERTEX)}, in the environment of the job.",
            )
