"""Transcripts of a run that was never on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate.model import Transcript, TrialKey


@dataclass(frozen=True)
class InMemoryTranscripts:
    """Transcripts by key."""

    by_key: Mapping[TrialKey, Transcript] = field(default_factory=dict)

    def find(self, key: TrialKey) -> Transcript | None:
        return self.by_key.get(key)
