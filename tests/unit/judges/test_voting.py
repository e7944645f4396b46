"""Early-stop voting gives what asking everybody gives, and asks no more than it must."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import pytest
from builders.judging import Seen, seen
from hypothesis import given, strategies as st

from evalgate.judges import panel
from evalgate.judges.base import (
    Asker,
    JudgeFailure,
    JudgeFailureKind,
    JudgeRequest,
    Sample,
    SampledRequest,
    Vote,
    VoteResult,
)
from evalgate.model import NotEvaluated, Reason
from evalgate.model.deviations import ADKS
from evalgate.values import Sentence

REQUEST = JudgeRequest(model="m", prompt="p", asker=Asker(criterion="c", version="1"))
LABELS = {"valid": True, "invalid": False, "unparsable": None}


def ballot(
    num_samples: int = 5, items: tuple[str, ...] = ("",), **options: object
) -> SampledRequest:
    return SampledRequest(
        requests=(REQUEST,) * num_samples, parse=lambda _: {}, items=items, **options
    )


def ask_again(_sample: int, _items: object) -> JudgeRequest:
    return REQUEST


def sample(index: int, word: str) -> Sample:
    """`valid`, `invalid`, `unparsable`, `silent` (the item is passed over) or a failure kind."""
    if word == "silent":
        return Sample(index=index)
    if word in LABELS:
        return Sample(index=index, votes={"": Vote(passed=LABELS[word], rationale=f"#{index}")})
    return Sample(
        index=index, failure=JudgeFailure(kind=JudgeFailureKind(word), message=f"{word} happened")
    )


def hold(ballot: SampledRequest, replies: Sequence[Sample]) -> tuple[VoteResult, int]:
    """The result of asking in waves, and how many were asked."""
    asked: list[Sample] = []
    while wave := panel.next_samples(ballot, asked):
        assert wave == tuple(range(len(asked), len(asked) + len(wave)))
        asked.extend(replies[index] for index in wave)
    return panel.decide(ballot, asked), len(asked)


def hold_words(ballot: SampledRequest, words: str) -> tuple[Seen, int]:
    replies = [sample(index, word) for index, word in enumerate(words.split())]
    result, calls = hold(ballot, replies)
    return seen(result.items[""]), calls


def verdict_of(item: Vote | NotEvaluated) -> tuple[object, ...]:
    passed, undecided, _, vote = seen(item)
    return passed, undecided, vote


# --- the proof ------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", range(1, 8))
def test_early_stop_equals_exhaustive_for_every_sequence(num_samples: int) -> None:
    early = ballot(num_samples)
    everybody = dataclasses.replace(early, exhaustive=True)
    for words in itertools.product(LABELS, repeat=num_samples):
        replies = [sample(index, word) for index, word in enumerate(words)]
        stopped, calls = hold(early, replies)
        full, all_calls = hold(everybody, replies)
        assert all_calls == num_samples
        assert calls <= num_samples
        assert verdict_of(stopped.items[""]) == verdict_of(full.items[""]), words
        yes, no = words.count("valid"), words.count("invalid")
        assert seen(full.items[""]).passed == (None if yes == no == 0 else yes > no)


@pytest.mark.parametrize("num_samples", range(1, 6))
def test_early_stop_equals_exhaustive_with_failures_and_silence(num_samples: int) -> None:
    early = ballot(num_samples, again=ask_again)
    everybody = dataclasses.replace(early, exhaustive=True)
    for words in itertools.product([*LABELS, "silent", "server_error"], repeat=num_samples):
        replies = [sample(index, word) for index, word in enumerate(words)]
        stopped, full = (seen(hold(held, replies)[0].items[""]) for held in (early, everybody))
        assert (stopped.passed, stopped.vote) == (full.passed, full.vote), words


@pytest.mark.parametrize("num_samples", range(1, 5))
def test_a_missing_sample_decides_nothing(num_samples: int) -> None:
    """Whatever the failed samples would have said, the verdict stands."""
    for words in itertools.product([*LABELS, "server_error"], repeat=num_samples):
        item = hold_words(ballot(num_samples), " ".join(words))[0]
        if item.passed is None:
            continue
        failed = [index for index, word in enumerate(words) if word == "server_error"]
        for said in itertools.product(LABELS, repeat=len(failed)):
            mended = list(words)
            for index, word in zip(failed, said, strict=True):
                mended[index] = word
            assert hold_words(ballot(num_samples), " ".join(mended))[0].passed == item.passed, (
                words,
                mended,
            )


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.lists(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from([True, False, None])),
            min_size=n,
            max_size=n,
        )
    )
)
def test_several_rubrics_are_each_decided_as_if_alone(
    replies: list[dict[str, bool | None]],
) -> None:
    votes = [
        Sample(index=index, votes={item: Vote(passed=passed) for item, passed in reply.items()})
        for index, reply in enumerate(replies)
    ]
    early = ballot(len(votes), items=("a", "b", "c"))
    stopped, calls = hold(early, votes)
    full, _ = hold(dataclasses.replace(early, exhaustive=True), votes)
    for item in "abc":
        assert verdict_of(stopped.items[item]) == verdict_of(full.items[item])
    alone = [hold(dataclasses.replace(early, items=(item,)), votes)[1] for item in "abc"]
    assert calls == max(alone)


# --- how few --------------------------------------------------------------------------------------


def fewest(positives: int, negatives: int, left: int, share: float) -> float:
    """Expected calls of the best possible strategy: ask one at a time, stop when nothing can
    change."""
    if positives > negatives + left or (negatives and negatives >= positives + left) or not left:
        return 0
    return (
        1
        + share * fewest(positives + 1, negatives, left - 1, share)
        + (1 - share) * fewest(positives, negatives + 1, left - 1, share)
    )


@pytest.mark.parametrize("num_samples", range(1, 8))
def test_expected_calls_are_the_fewest_possible(num_samples: int) -> None:
    share = 0.9
    expected = 0.0
    for words in itertools.product(["valid", "invalid"], repeat=num_samples):
        chance = math.prod(share if word == "valid" else 1 - share for word in words)
        expected += chance * hold_words(ballot(num_samples), " ".join(words))[1]
    assert expected == pytest.approx(fewest(0, 0, num_samples, share))
    if num_samples == 5:
        print(f"p = 0.9, n = 5: {expected:.4f} calls, {expected / 5:.4f} x")
        assert expected / 5 == pytest.approx(0.664, abs=5e-4)


@pytest.mark.parametrize(
    ("num_samples", "words", "calls", "passed", "first"),
    [
        (5, "valid valid valid valid valid", 3, True, 0),  # three agree
        (5, "valid valid invalid valid valid", 4, True, 0),  # one more settles it
        (5, "valid invalid valid invalid invalid", 5, False, 1),
        (4, "invalid invalid valid valid", 2, False, 0),  # a tie would be a no: two are enough
        (4, "valid invalid valid invalid", 4, False, 1),
        (5, "unparsable valid valid valid valid", 4, True, 1),
        (3, "unparsable unparsable invalid", 3, False, 2),  # one readable sample decides, as in ADK
        (1, "valid", 1, True, 0),
    ],
)
def test_waves(num_samples: int, words: str, calls: int, passed: bool, first: int) -> None:
    item, asked = hold_words(ballot(num_samples), words)
    assert (asked, item.passed) == (calls, passed)
    assert item.vote is not None
    assert item.vote.rationale == f"#{first}"  # the first sample of the winning side


def test_the_first_wave_is_the_fewest_that_could_decide() -> None:
    assert panel.next_samples(ballot(5), []) == (0, 1, 2)
    assert panel.next_samples(ballot(5, exhaustive=True), []) == (0, 1, 2, 3, 4)
    assert panel.next_samples(ballot(0), []) == ()


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "calls", "passed", "undecided", "message"),
    [
        # one of five fails: the others settle it
        ("valid server_error valid valid valid", 4, True, None, ""),
        # a failure that every sample would meet: the other samples are spared
        ("unauthorized x x x x", 3, None, Reason.CREDENTIALS_MISSING, "unauthorized happened"),
        # three failed: two cannot win any more, so that they are not asked
        ("timeout timeout timeout valid valid", 3, None, Reason.JUDGE_UNAVAILABLE, "all 3 samples"),
        (
            "unparsable unparsable unparsable unparsable unparsable",
            5,
            None,
            Reason.JUDGE_UNREADABLE,
            "none of 5 samples",
        ),
        # a decided item stays decided, whatever the failure
        (
            "invalid invalid budget_spent x x",
            3,
            None,
            Reason.JUDGE_UNAVAILABLE,
            "budget_spent happened",
        ),
    ],
)
def test_failures(
    words: str, calls: int, passed: bool | None, undecided: Reason | None, message: str
) -> None:
    words = words.replace("x", "unauthorized")
    item, asked = hold_words(ballot(5), words)
    assert (asked, item.passed, item.undecided) == (calls, passed, undecided)
    assert message in item.message


def test_an_item_passed_over_is_missing_once_it_was_asked_for_again() -> None:
    words = "valid silent silent"
    # nothing to ask again with: no vote, as in ADK
    assert hold_words(ballot(3), words)[0].passed is True
    item = hold_words(ballot(3, again=ask_again), words)[0]
    assert (item.passed, item.undecided) == (None, Reason.JUDGE_UNREADABLE)
    assert item.message == Sentence("samples_unreadable", 2, 3, "")
    assert "even on a second try" in item.message


@pytest.mark.parametrize(
    ("num_samples", "words", "message"),
    [
        (1, "silent", "the only sample gives no verdict about `r`, even on a second try"),
        (2, "silent silent", "all 2 samples give no verdict about `r`, even on a second try"),
        (
            3,
            "valid invalid silent",
            "1 of 3 samples gives no verdict about `r`, even on a second try",
        ),
        (1, "unparsable", "the only sample gives none of the labels about `r`"),
        (2, "unparsable unparsable", "none of 2 samples gives one of the labels about `r`"),
        (1, "timeout", "the only sample failed: timeout happened"),
        (2, "timeout timeout", "all 2 samples failed: timeout happened"),
        (3, "valid invalid timeout", "1 of 3 samples failed: timeout happened"),
    ],
)
def test_why_an_item_is_undecided_reads_well(num_samples: int, words: str, message: str) -> None:
    samples = [
        dataclasses.replace(each, votes={"r": each.votes[""]} if each.votes else {})
        for each in (sample(index, word) for index, word in enumerate(words.split()))
    ]
    held = ballot(num_samples, items=("r",), again=ask_again, exhaustive=True)
    assert seen(panel.decide(held, samples).items["r"]).message == message


def test_the_only_item_of_a_question_has_no_name() -> None:
    held = ballot(1, again=ask_again, exhaustive=True)
    (item,) = panel.decide(held, [sample(0, "silent")]).items.values()
    assert seen(item).message == "the only sample gives no verdict, even on a second try"


def test_adk_compat_voids_a_ballot_with_a_failed_sample() -> None:
    words = "valid valid valid valid server_error"
    assert hold_words(ballot(5), words)[0].passed is True
    item, calls = hold_words(ballot(5, deviations=ADKS), words)
    assert (item.passed, item.undecided, calls) == (None, Reason.JUDGE_UNAVAILABLE, 5)


def test_adk_compat_never_counts_what_was_passed_over() -> None:
    item = hold_words(ballot(3, deviations=ADKS, again=ask_again), "valid silent silent")[0]
    assert (item.passed, item.undecided, item.message) == (True, None, "")
