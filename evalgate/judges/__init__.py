"""The judges: one file a client, all in the table below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import gemini, openai, replay, vertex
from .base import JudgeDriver

JUDGES: Mapping[str, JudgeDriver] = MappingProxyType(
    {driver.name: driver for driver in (gemini.DRIVER, openai.DRIVER, replay.DRIVER, vertex.DRIVER)}
)
"""What a config may name as a judge's client, by that name."""
