"""What the samples of a judge said, counted."""

from __future__ import annotations

from collections import Counter

from evalgate import words
from evalgate.model import Finding

UNREAD = "no verdict"


def tally(finding: Finding) -> str:
    """`3 samples: 2 valid, 1 no verdict; 2 not needed`; empty where no judge was asked."""
    if not finding.opinions:
        return ""
    counts = Counter(opinion.label or UNREAD for opinion in finding.opinions)
    asked = f"{words.counted(len(finding.opinions), 'sample')}: "
    said = ", ".join(f"{count} {label}" for label, count in counts.most_common())
    return asked + said + (f"; {finding.spared} not needed" if finding.spared else "")


def worth_showing(finding: Finding) -> bool:
    """Whether it says anything."""
    return bool(finding.text.strip() or finding.opinions)
