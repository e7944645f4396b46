"""Which samples a ballot still needs, and what those asked so far say: pure.

An item passes when more samples say yes than no; a tie is a no (ADK's rule). A sample that failed, or that passed the
item over even when asked again, could have said either, so that an item is decided only where neither it nor a
sample not asked yet could change the outcome. A label that is none of the labels is no vote (ADK's rule again).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalgate.plugins import FINAL, Ballot, ItemVerdict, JudgeFailure, Sample, Undecided, VoteResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    """The samples asked so far, as one item sees them, and how many are left to ask."""

    positives: int
    negatives: int
    unreadable: int
    failed: int
    passed_over: int
    left: int

    @property
    def open(self) -> int:
        """Samples that could have said, or could still say, either."""
        return self.failed + self.passed_over + self.left


def next_wave(ballot: Ballot, samples: Sequence[Sample]) -> tuple[int, ...]:
    """The sample indices to ask now, all at once; empty: no further sample can change any item.

    `samples`: those asked so far, which are the first ones. A wave is as long as the longest-lasting item needs at
    the least, so that no sample is asked that could have been spared.
    """
    asked = len(samples)
    left = ballot.num_samples - asked
    if left <= 0 or any(sample.failure and sample.failure.kind in FINAL for sample in samples):
        return ()
    if ballot.exhaustive or ballot.adk_compat:
        return tuple(range(asked, ballot.num_samples))
    size = max((_needed(_count(ballot, item, samples)) for item in ballot.items), default=0)
    return tuple(range(asked, asked + size))


def decide(ballot: Ballot, samples: Sequence[Sample]) -> VoteResult:
    """The verdict on every item from the samples asked; those not asked count as if they could say either."""
    verdicts = {item: _decide_item(ballot, item, samples) for item in ballot.items}
    return VoteResult(items=verdicts, samples=tuple(samples))


def items_passed_over(ballot: Ballot, votes: Mapping[str, object]) -> tuple[str, ...]:
    """The items that a reply with these votes does not speak of, in the ballot's order."""
    return tuple(item for item in ballot.items if item not in votes)


def _needed(count: _Count) -> int:
    """How many further samples decide the item at the earliest; 0 where it is decided, or cannot be any more."""
    if _decided(count) is not None:
        return 0
    for more in range(1, count.left + 1):
        others = count.open - more
        wins = count.positives + more > count.negatives + others
        loses = count.negatives + more >= count.positives + others
        if wins or loses:
            return more
    return 0


def _decided(count: _Count) -> bool | None:
    if count.positives > count.negatives + count.open:
        return True
    if count.negatives and count.negatives >= count.positives + count.open:
        return False
    return None


def _count(ballot: Ballot, item: str, samples: Sequence[Sample]) -> _Count:
    votes = [sample.votes.get(item) for sample in samples if sample.failure is None]
    silent = votes.count(None)
    asked_again = ballot.again is not None and not ballot.adk_compat
    return _Count(
        positives=sum(1 for vote in votes if vote and vote.passed is True),
        negatives=sum(1 for vote in votes if vote and vote.passed is False),
        unreadable=sum(1 for vote in votes if vote and vote.passed is None) + (0 if asked_again else silent),
        failed=len(samples) - len(votes),
        passed_over=silent if asked_again else 0,
        left=ballot.num_samples - len(samples),
    )


def _decide_item(ballot: Ballot, item: str, samples: Sequence[Sample]) -> ItemVerdict:
    count = _count(ballot, item, samples)
    voided = ballot.adk_compat and count.failed > 0
    passed = None if voided else _decided(count)
    winner = next((sample for sample in samples if _says(sample, item, passed)), None)
    undecided, message = (None, "") if passed is not None else _why_undecided(item, count, samples)
    return ItemVerdict(
        item=item,
        passed=passed,
        undecided=undecided,
        message=message,
        vote=winner.votes[item] if winner else None,
        sample=winner.index if winner else None,
        positives=count.positives,
        negatives=count.negatives,
        unreadable=count.unreadable,
        missing=count.failed + count.passed_over,
    )


def _says(sample: Sample, item: str, passed: bool | None) -> bool:  # noqa: FBT001 - the side that won, or neither
    vote = sample.votes.get(item)
    return passed is not None and sample.failure is None and vote is not None and vote.passed is passed


def _why_undecided(item: str, count: _Count, samples: Sequence[Sample]) -> tuple[Undecided, str]:
    failures = [sample.failure for sample in samples if sample.failure]
    if failures:
        return Undecided.UNAVAILABLE, f"{_part(len(failures), len(samples))} failed: {_weightiest(failures).message}"
    if not samples:
        return Undecided.UNAVAILABLE, "the judge was not asked"
    about = f" about `{item}`" if item else ""
    if count.passed_over:
        say = "says" if count.passed_over == 1 else "say"
        who = _part(count.passed_over, len(samples))
        return Undecided.UNREADABLE, f"{who} {say} nothing{about}, also when asked again"
    none = "the only sample gives none" if len(samples) == 1 else f"none of {len(samples)} samples gives one"
    return Undecided.UNREADABLE, f"{none} of the labels{about}"


def _part(count: int, total: int) -> str:
    """`the only sample`, `all 3 samples`, `1 of 3 samples`."""
    if count == total:
        return "the only sample" if total == 1 else f"all {total} samples"
    return f"{count} of {total} samples"


def _weightiest(failures: Sequence[JudgeFailure]) -> JudgeFailure:
    """The failure to tell of: one that all further samples would meet, else the first."""
    return next((failure for failure in failures if failure.kind in FINAL), failures[0])
