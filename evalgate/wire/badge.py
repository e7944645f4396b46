"""badge.json: how the base branch stands, as shields.io's endpoint reads it."""

from __future__ import annotations

import json

from evalgate.model import Health

LABEL = "evalgate"


def render_badge(health: Health) -> str:
    """`{"schemaVersion":1,"label":"evalgate","message":"42/45 · 2 flaky","color":"yellow"}`.

    A case that was not measured counts as not passed, and is named. Source: shields.io, endpoint badge.
    """
    parts = [f"{health.passed}/{health.total}" if health.total else "no cases"]
    if health.flaky:
        parts.append(f"{health.flaky} flaky")
    if health.unmeasured:
        parts.append(f"{health.unmeasured} not measured")
    badge = {"schemaVersion": 1, "label": LABEL, "message": " · ".join(parts), "color": _color(health)}
    return json.dumps(badge, ensure_ascii=False) + "\n"


def _color(health: Health) -> str:
    if not health.total or health.unmeasured == health.total:
        return "lightgrey"
    if health.passed == health.total:
        return "green" if health.flaky else "brightgreen"
    share = health.passed / health.total
    return "yellow" if share >= 0.9 else "orange" if share >= 0.7 else "red"
