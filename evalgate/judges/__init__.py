"""The judges: one file a client, all in the table below."""

from __future__ import annotations

from evalgate.extensions import Table
from . import gemini, openai, replay
from .base import JudgeDriver

JUDGES: Table[JudgeDriver] = Table(
    "evalgate.judges", JudgeDriver, (gemini.DRIVER, openai.DRIVER, replay.DRIVER)
)
"""What a config may name as a judge's client, by that name."""
