"""Failures, confirmed by reruns: by how many, what they say, and how seldom chance alone confirms one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import pytest
from builders import sides
from hypothesis import given
from hypothesis import strategies as st

from evalgate.comparison import confirm, labels
from evalgate.comparison import verdict as comparison_verdict
from evalgate.comparison.confirm import Confirmation, Finding, Suspect
from evalgate.model import (
    CaseKey,
    CaseStatus,
    Change,
    Comparison,
    FailOn,
    FailureOrigin,
    NonBlocking,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Shard,
    ThresholdRule,
    VerdictKind,
)

CASE: CaseKey = (sides.SUITE, "c0")
SURE = 0.04
"""A level at which 3 pairs without a slip confirm, 5 with one, 6 with two; alone 11 failures."""


def letters(word: str) -> list[bool]:
    return [letter == "P" for letter in word]


def fresh_run(run: Run, rows: Sequence[Sequence[str]]) -> Run:
    """`rows`: of every criterion what the reruns of c0 gave."""
    fresh = sides.run([list(row) for row in rows], uses=run.suites[0].criteria)
    return dataclasses.replace(run, confirmations=fresh.trials)


def rerun(text: str, fresh: str, policy: Policy | None = None) -> tuple[Comparison, tuple[Confirmation, ...], Run]:
    """`fresh`: of each criterion `FF/PP`, head's letters first."""
    policy = policy or Policy()
    head, base = sides.sides(text)
    rows = [word.partition("/") for word in fresh.split(";")]
    head = fresh_run(head, [[ours.strip()] for ours, _, _ in rows])
    if "/" in fresh:
        base = fresh_run(base, [[theirs.strip()] for _, _, theirs in rows])
    comparison = sides.compare_runs(head, base, policy=policy)
    asked = confirm.of(head, comparison, policy=policy)
    return confirm.settle(comparison, asked, head=head), asked, head


# --- how seldom chance confirms -----------------------------------------------------------------------


def worst_chance(needed: Sequence[int]) -> float:
    """The largest chance to be confirmed of a case that is the same on both sides, where somebody chooses its pass rate
    anew for each pair: by backward induction over pairs done and slips so far."""

    @functools.cache
    def chance(done: int, slips: int) -> float:
        if slips >= len(needed) or (slips > 1 and done <= confirm.EARLY_PAIRS):
            return 0.0
        if done >= needed[slips]:
            return 1.0
        most = 0.0
        for step in range(21):
            p = step / 40
            u = p * (1 - p)
            after = [chance(done + 1, slips + more) for more in range(3)]
            most = max(most, u * after[0] + (1 - 2 * u) * after[1] + u * after[2])
        return most

    return chance(0, 0)


@pytest.mark.parametrize(("level", "needed"), confirm.PAIRS)
def test_no_pass_rate_confirms_by_pairs_more_often_than_the_level(level: float, needed: tuple[int, ...]) -> None:
    assert confirm.pairs_needed(level) == needed
    assert worst_chance(needed) <= level * 1.01  # the table is rounded to three digits


@pytest.mark.parametrize("level", [0.05, 0.01, 0.0004, 0.0001, 1e-9])
def test_every_level_is_held(level: float) -> None:
    assert worst_chance(confirm.pairs_needed(level)) <= level * 1.01
    needed = confirm.failures_needed(level)
    assert needed >= confirm.FEWEST_ALONE
    assert chance_alone(0.3, needed) <= level + 1e-12


def chance_alone(p: float, needed: int) -> float:
    """How often reruns of head confirm a case that passes with probability `p`: over every sequence, summed."""

    @functools.cache
    def chance(done: int, passes: int) -> float:
        if done >= needed + confirm.SECOND_CHANCE * passes:
            return 1.0
        failed = chance(done + 1, passes)
        passed = 0.0 if passes or done < confirm.EARLY_RUNS else chance(done + 1, 1)
        return (1 - p) * failed + p * passed

    return chance(0, 0)


@given(st.lists(st.booleans(), max_size=30))
def test_what_head_alone_says_is_said_for_good(outcomes: list[bool]) -> None:
    said = [confirm.by_head(outcomes[:count], 9) for count in range(len(outcomes) + 1)]
    settled = [each for each in said if each is not Finding.OPEN]
    assert settled == settled[:1] * len(settled)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=15))
def test_what_pairs_say_is_said_for_good(pairs: list[tuple[bool, bool]]) -> None:
    heads, bases = [head for head, _ in pairs], [base for _, base in pairs]
    said = [confirm.by_pairs(heads[:count], bases[:count], (4, 6, 8)) for count in range(len(pairs) + 1)]
    settled = [each for each in said if each is not Finding.OPEN]
    assert settled == settled[:1] * len(settled)


# --- what reruns say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "bases", "finding"),
    [
        ("FFF", "PPP", Finding.CONFIRMED),
        ("FFF", "PP", Finding.OPEN),
        ("PFF", "PPP", Finding.OPEN),  # a slip asks for two pairs more
        ("PFFFF", "PPPPP", Finding.CONFIRMED),
        ("PFFFFF", "PPPPFP", Finding.CONFIRMED),  # confirmed before the second slip
        ("PFFFFF", "PPPFPP", Finding.CONFIRMED),
        ("PFFPF", "PPPPF", Finding.FLAKY),
        ("PPP", "", Finding.FLAKY),
        ("", "", Finding.OPEN),
    ],
)
def test_pairs(heads: str, bases: str, finding: Finding) -> None:
    assert confirm.by_pairs(letters(heads), letters(bases), confirm.pairs_needed(SURE)) is finding


@pytest.mark.parametrize(
    ("heads", "finding"),
    [
        ("F" * 9, Finding.CONFIRMED),
        ("F" * 8, Finding.OPEN),
        ("P", Finding.FLAKY),  # among the first five
        ("FFFFP", Finding.FLAKY),
        ("FFFFFP" + "F" * 8, Finding.OPEN),
        ("FFFFFP" + "F" * 9, Finding.CONFIRMED),
        ("FFFFFPFFP", Finding.FLAKY),
    ],
)
def test_head_alone(heads: str, finding: Finding) -> None:
    assert confirm.by_head(letters(heads), 9) is finding


# 20 cases of which one fails leave the regression gate nothing to spend: 0.05 for one suspect
@pytest.mark.parametrize(
    ("text", "fresh", "origin", "blocks"),
    [
        ("F/P", "FFF/PPP", "new", True),
        ("F/P", "PPP/PPP", "flaky", False),
        ("F/P", "F/P", "unconfirmed", True),  # too few
        ("F/P", "F!!!/P!!!", "unconfirmed", True),  # they failed to be measured
        ("F/F", "FFFFFFFFFF", "known", True),  # whose failure it is; it is one all the same
        ("F/F", "FP", "flaky", False),
        ("F/F", "FP!", "flaky", False),  # a crash says nothing of the answer: the run that passed does
        ("F/F", "!P", "flaky", False),
        ("F/F", "!!!P", "flaky", False),  # of files: a run gives up after three
        ("F/F", "!!!", "unconfirmed", True),
        ("F/?", "FFFFFFFFFF", "unknown", True),
        ("F/?", "P", "flaky", False),
        ("FFFFF/PPFPP", "FFF/PPP", "new", True),  # the base passes mostly
        # the base fails m, head fails n: n is looked at beside the base, the whole alone
        ("P/F ; F/P", "PPPP/FFFF ; FFFF/PPPP", "new", True),
        ("P/F ; F/P", "PPP/FFF ; PPP/PPP", "flaky", False),
        # head fails m, then n, then m: the case as a whole is new though no criterion fails every time
        ("F/P ; P/P", "PFPF/PPPP ; FPFP/PPPP", "new", True),
        ("F/P ; P/P", "PPP/PPP ; PPP/PPP", "flaky", False),
    ],
)
def test_reruns_say_whose_failure_it_is(text: str, fresh: str, origin: str, *, blocks: bool) -> None:
    policy = Policy(fail_on=frozenset({FailOn.THRESHOLD}))
    settled, asked, head = rerun(text, fresh)
    assert settled.cases[0].origin is FailureOrigin(origin)
    verdict = comparison_verdict.decide(head, policy, comparison=settled, asked=asked)
    assert verdict.blocks is blocks
    shown = NonBlocking.FLAKY if origin == "flaky" else None
    assert verdict.suites[0].cases[0].nonblocking is shown


def test_without_a_base_reruns_of_head_decide() -> None:
    for fresh, blocks in (("F" * 10, True), ("FP", False), ("", True)):
        head = fresh_run(sides.run([["F", "P", "P"]]), [[fresh]] if fresh else [["."]])
        asked = confirm.of(head, None, policy=Policy())
        verdict = comparison_verdict.decide(head, Policy(), comparison=None, asked=asked)
        assert verdict.blocks is blocks, fresh


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("F!!", VerdictKind.NOT_MEASURED),  # two of six runs are too many for accidents
        ("F??", VerdictKind.NOT_MEASURED),  # nobody knows what an outage hid
        ("FF!", VerdictKind.PASS),
    ],
)
def test_a_flaky_failure_hides_no_run_that_is_lacking(text: str, kind: VerdictKind) -> None:
    head = fresh_run(sides.run([[text, "PPP"]]), [["PP"]])
    asked = confirm.of(head, None, policy=Policy())
    verdict = comparison_verdict.decide(head, Policy(), comparison=None, asked=asked)
    assert (verdict.kind, verdict.blocks) == (kind, kind is not VerdictKind.PASS)


# --- crashes --------------------------------------------------------------------------------------------

FEW = Policy()
NINE = " P/P" * 9


@pytest.mark.parametrize(
    ("text", "fresh", "policy", "said"),
    [
        ("!/P" + NINE, "PP/PP", FEW, "flaky"),  # an accident
        ("!/P" + NINE, "!PP/PP", FEW, "flaky"),  # two of them
        ("!/P" + NINE, "!!!/PPP", FEW, "not measured"),  # it crashes all the time
        ("!/P" + NINE, "FF/FF", FEW, "not measured"),  # nor where the base fails then
        ("!/P" + NINE, "FFF/PPP", FEW, "not measured"),  # where it does not crash it fails: never a pass
        ("!/P" + NINE, "P/P", FEW, "not measured"),  # beside a base that passes one run is too few
        ("!/P" + NINE, "./.", FEW, "not measured"),  # nothing was run again
        ("!/?" + NINE, "P/.", FEW, "flaky"),  # without the base's word head's own is enough
        ("!P!/PPP" + " PPP/PPP" * 9, "PP/PP", FEW, "flaky"),  # in two runs of three
        ("!F/PP" + " PP/PP" * 9, "PP/PP", FEW, "flaky"),  # it failed in the other
        ("!F/PP" + " PP/PP" * 9, "FFF/PPP", FEW, "not measured"),
        ("?/P" + NINE, "PP/PP", FEW, "not measured"),  # an outage is not looked at by reruns
        ("!?/PP" + " PP/PP" * 9, "PP/PP", FEW, "not measured"),  # and is not excused by a crash beside it
        ("!/P !/P !/P P/P", "PP/PP", FEW, "not measured"),  # most runs crashed: that is no accident
        ("!/P" + NINE, "PP/PP", Policy(threshold=ThresholdRule.ALL), "not measured"),
        ("!/P" + NINE, "PP/PP", Policy(deterministic=True), "not measured"),
        ("!/P" + NINE, "PP/PP", Policy(threshold=ThresholdRule.NEW), "flaky"),
        ("!/P" + NINE, "PP/PP", Policy(pass_rate=0.5), "flaky"),
        ("!/P", "PP/PP", FEW, "flaky"),  # the only one
    ],
)
def test_a_crash_is_an_accident_only_where_reruns_say_so(text: str, fresh: str, policy: Policy, said: str) -> None:
    settled, asked, head = rerun(text, fresh, policy)
    verdict = comparison_verdict.decide(head, policy, comparison=settled, asked=asked)
    case = verdict.suites[0].cases[0]
    assert case.kind is VerdictKind.NOT_MEASURED  # flaky or not, it has no score
    assert labels.of(verdict, settled)[case.key].value == said.replace(" ", "_")
    assert (verdict.blocks, case.nonblocking) == ((False, NonBlocking.FLAKY) if said == "flaky" else (True, None))


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("!/P" + NINE, Policy(), [("c0", True)]),
        ("!/?" + NINE, Policy(), [("c0", False)]),
        ("!/P F/P" + NINE, Policy(), [("c0", True), ("c1", True)]),
        ("!/P F/P" + NINE, Policy(pass_rate=0.5), [("c0", True)]),  # the failure is within the pass rate
        # an accident does not count: of nine cases four fifths are eight
        ("!/P F/P F/P" + " P/P" * 7, Policy(pass_rate=0.8), [("c0", True), ("c1", True), ("c2", True)]),
        ("!/P F/P" + NINE, Policy(min_measured=0.5, pass_rate=0.5), []),  # and so is the crash
        ("!/P" + NINE, Policy(advisory=frozenset({sides.SUITE})), []),
        ("!/P !/P !/P P/P P/P P/P", Policy(), []),
    ],
)
def test_crashes_that_may_be_accidents_are_run_again(
    text: str, policy: Policy, expected: list[tuple[str, bool]]
) -> None:
    assert suspects(text, policy) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("!/P !/P !/P" + " P/P" * 17, "3 of 20 cases could be evaluated on the base, but not fully on head."),
        ("!/P !/P P/P" + " P/P" * 17, ""),
        ("!/P !/P !/P P/! P/!" + " P/P" * 15, ""),  # the base crashes about as often
    ],
)
def test_crashes_that_the_base_does_not_have_block_together(text: str, told: str) -> None:
    head, base = sides.sides(text)
    base = dataclasses.replace(
        base, trials=tuple(dataclasses.replace(each, own_failure=each.failure is not None) for each in base.trials)
    )
    rows = [["PP"] * 3 + ["."] * 17]
    head, base = (
        dataclasses.replace(run, confirmations=sides.run([list(row) for row in rows]).trials) for run in (head, base)
    )
    policy = Policy()
    comparison = sides.compare_runs(head, base, policy=policy)
    asked = confirm.of(head, comparison, policy=policy)
    settled = confirm.settle(comparison, asked, head=head)
    verdict = comparison_verdict.decide(head, policy, comparison=settled, asked=asked)
    assert [gate.reason for gate in verdict.gates if gate.blocks] == ([told] if told else [])


def test_an_accident_is_no_measurement() -> None:
    head = fresh_run(sides.run([["!PP", "PF?", "?PP"]]), [["P"]])
    policy = Policy(pass_rate=0.5, min_measured=0.75)  # no case was measured whole
    asked = confirm.of(head, None, policy=policy)
    assert comparison_verdict.decide(head, policy, comparison=None, asked=asked).kind is VerdictKind.NOT_MEASURED


def test_most_shards_that_crash_are_no_accidents() -> None:
    head = sides.run([["!", "!", "P", "P"]])
    shared = dataclasses.replace(head, shards=2, homes={(sides.SUITE, f"c{at}"): at % 2 + 1 for at in range(4)})
    assert not confirm.crashes(shared, Policy())
    whole = sides.run([["!", "P", "P", "P"] + ["P"] * 4])
    homes = {(sides.SUITE, f"c{at}"): at % 2 + 1 for at in range(8)}
    assert confirm.crashes(dataclasses.replace(whole, shards=2, homes=homes), Policy())


def test_a_crash_is_left_out_of_what_is_compared() -> None:
    told = sides.compare("!PPPP/PPPPP" + " PPPPP/PPPPP" * 9, policy=Policy()).criteria[0]
    assert (told.change, told.head, told.base) == (Change.NO_DIFFERENCE, 1.0, 1.0)
    settled, asked, head = rerun("!/P", "PP/PP")
    alone = settled.criteria[0]
    assert (alone.change, alone.cases.compared) == (Change.INCONCLUSIVE, 0)
    verdict = comparison_verdict.decide(head, Policy(), comparison=settled, asked=asked)
    assert verdict.reason == "Not compared: the agent crashed in every case of `m`."


@given(
    st.lists(st.tuples(st.sampled_from("PPPPF?."), st.text("PF!?", max_size=9)), min_size=1, max_size=5),
    st.sampled_from([1.0, 0.75, 0.5]),
    st.sampled_from([1.0, 0.75, 0.5]),
)
def test_a_crash_without_a_rerun_that_passes_never_unblocks(
    cases: list[tuple[str, str]], rate: float, measured: float
) -> None:
    policy = Policy(pass_rate=rate, min_measured=measured)
    for crash in ("!", "!!!"):
        blocks = []
        for first in "P!":  # the first case passes, or crashes in its place
            head = sides.run([[first, *(letter for letter, _ in cases)]])
            head = dataclasses.replace(head, confirmations=sides.run([[crash, *(word for _, word in cases)]]).trials)
            asked = confirm.of(head, None, policy=policy)
            verdict = comparison_verdict.decide(head, policy, comparison=None, asked=asked)
            assert verdict.suites[0].cases[0].nonblocking is None
            blocks.append(verdict.blocks)
        assert blocks != [True, False]


def test_accidents_take_no_room_of_a_pass_rate() -> None:
    head = sides.run([["F", "F", *["P"] * 8]])
    words = [["F" * 20, *["."] * 9], [".", "P", *["."] * 8]]
    lasting, flaky = (sides.run([each]).trials for each in words)
    head = dataclasses.replace(head, confirmations=(*lasting, *flaky))
    for rate, blocks in ((0.9, False), (0.95, True)):
        policy = Policy(pass_rate=rate)
        asked = confirm.of(head, None, policy=policy)
        assert comparison_verdict.decide(head, policy, comparison=None, asked=asked).blocks is blocks, rate


def test_a_budget_excuses_only_what_it_kept_from_being_run() -> None:
    head = dataclasses.replace(fresh_run(sides.run([["F", "P", "P"]]), [["!!!"]]), truncated="20 agent runs")
    asked = confirm.of(head, None, policy=Policy())
    assert comparison_verdict.decide(head, Policy(), comparison=None, asked=asked).kind is VerdictKind.FAIL


def test_what_a_budget_left_unconfirmed_is_not_measured() -> None:
    head = dataclasses.replace(sides.run([["F", "P", "P"]]), truncated="20 agent runs")
    asked = confirm.of(head, None, policy=Policy())
    assert comparison_verdict.decide(head, Policy(), comparison=None, asked=asked).kind is VerdictKind.NOT_MEASURED


# --- what is asked --------------------------------------------------------------------------------------


def suspects(text: str, policy: Policy | None = None, **more: object) -> list[tuple[str, bool]]:
    policy = policy or Policy()
    head, base = sides.sides(text)
    given = {key: more.pop(key) for key in ("unpaired", "unreliable") if key in more}
    comparison = sides.compare_runs(head, base, policy=policy, **given)  # type: ignore[arg-type]
    more |= {name: value for name, value in given.items() if name == "unreliable"}
    found = confirm.suspects(head, comparison, policy=policy, **more)  # type: ignore[arg-type]
    return [(each.key[1], each.paired) for each in found]


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("F/P P/P F/F ?/P P/F", Policy(), [("c0", True), ("c2", False)]),
        ("F/P F/F", Policy(threshold=ThresholdRule.ALL), []),
        ("F/P F/F F/?", Policy(threshold=ThresholdRule.NEW), [("c0", True), ("c2", False)]),
        ("F/P P/P", Policy(pass_rate=0.5), []),  # the suite passes as it is: nothing is asked
        ("F/P F/P P/P", Policy(pass_rate=0.5), [("c0", True), ("c1", True)]),
        ("F/P P/P", Policy(advisory=frozenset({sides.SUITE})), []),
        ("F/P P/P", Policy(deterministic=True), []),
    ],
)
def test_which_failures_are_run_again(text: str, policy: Policy, expected: list[tuple[str, bool]]) -> None:
    assert suspects(text, policy) == expected


@pytest.mark.parametrize("status", [CaseStatus.NEW, CaseStatus.CHANGED])
def test_a_case_that_the_base_was_not_asked_is_run_again_on_head(status: CaseStatus) -> None:
    assert suspects("F/P", unpaired={CASE: status}) == [("c0", False)]


def test_what_cannot_decide_or_cannot_be_run_is_not_run_again() -> None:
    assert suspects("F/P F/P", unreliable=frozenset({CASE})) == [("c1", True)]
    assert suspects("F/P", recorded={sides.SUITE}) == []


@pytest.mark.parametrize(
    ("text", "judged", "count"),
    [
        ("FFF/PPP PPP/PPP", False, 0),  # 1 in 64 that a coin does the same
        ("FF/PP PP/PP", False, 1),  # 1 in 16
        ("FFF/PPP PPP/PPP", True, 1),  # the agent repeats itself, its judge need not
    ],
)
def test_an_agent_that_repeats_itself_is_not_run_again(text: str, judged: bool, count: int) -> None:
    head, base = sides.sides(text, behaviours={0: "a", 1: "b"})
    head = sides.scaled(head, {}, judged=frozenset({"m"} if judged else ()))
    comparison = sides.compare_runs(head, base, judged=frozenset({"m"} if judged else ()), policy=Policy())
    assert comparison.deterministic
    assert len(confirm.suspects(head, comparison, policy=Policy())) == count


def test_both_gates_spend_one_alpha() -> None:
    """Five flips of twenty: the sign test could reach 1 in 32 but not below its share, so that nothing is spent."""
    lone = sides.compare("F/P " * 5 + "P/P " * 15, policy=Policy())
    assert lone.spent == 0
    assert confirm.level(Policy(), lone, suspects=5) == pytest.approx(0.01)
    many = sides.compare("F/P " * 6 + "P/P " * 14, policy=Policy())
    assert many.spent == pytest.approx(1 / 64)
    assert many.criteria[0].change.value == "regressed"
    assert confirm.level(Policy(), many, suspects=6) == pytest.approx((0.05 - 1 / 64) / 6)
    graded = sides.compare("3/4 2/5 1/6 9/9", policy=Policy())
    assert graded.spent == pytest.approx(0.02)  # what drawn permutations may reach
    assert confirm.level(Policy(), None, suspects=2, parts=3) == pytest.approx(0.03 / 6)


@pytest.mark.parametrize(
    ("shards", "homes", "head", "base", "origins"),
    [
        # one run: 0.025 for each of two failures, which three pairs hold
        (1, "", "FF FFF", "PP PPP", "unconfirmed new"),
        # two shards with a failure each: 0.015 for each, with one slip five pairs
        (2, "12", "FFF FFFF", "PPP PPPP", "unconfirmed new"),
        (2, "12", "PFFFF FFFF", "PPPPP PPPP", "new new"),
        # both failures are one shard's: 0.0075 for each, with one slip six pairs
        (2, "11", "PFFFF FFFF", "PPPPP PPPP", "unconfirmed new"),
        (2, "11", "PFFFFF FFFF", "PPPPPP PPPP", "new new"),
        # twenty shards: 0.0015 for each
        (20, "12", "FFFFF FFFFFF", "PPPPP PPPPPP", "unconfirmed new"),
    ],
)
def test_reruns_of_shards_are_judged_by_the_share_that_each_had(
    shards: int, homes: str, head: str, base: str, origins: str
) -> None:
    """In the shard, and wherever the joined results are looked at again (merge, `compare`, `mode: post`)."""
    ours, theirs = sides.sides("F/P F/P")
    ours, theirs = fresh_run(ours, [head.split()]), fresh_run(theirs, [base.split()])
    of_case = {(sides.SUITE, f"c{number}"): int(home) for number, home in enumerate(homes)}
    joined = dataclasses.replace(ours, shards=shards, homes=of_case)
    comparison = sides.compare_runs(joined, theirs, policy=Policy())
    asked = confirm.of(joined, comparison, policy=Policy())
    settled = confirm.settle(comparison, asked, head=joined)
    assert [case.origin and case.origin.value for case in settled.cases] == origins.split()
    for index in sorted({*of_case.values()}):
        part = dataclasses.replace(ours, shard=Shard(index=index, of=shards, homes=of_case))
        own = [each for each in confirm.of(part, comparison, policy=Policy()) if of_case[each.suspects[0].key] == index]
        known = {key: said for each in own for key, said in each.settled(part, theirs).items()}
        assert (
            known.items() <= {key: said for each in asked for key, said in each.settled(joined, theirs).items()}.items()
        )


# --- in which order -------------------------------------------------------------------------------------


def suspect(name: str, *, paired: bool) -> Suspect:
    return Suspect(key=(sides.SUITE, name), uses=(sides.use("m"),), paired=paired)


def wanted(confirmation: Confirmation, *outcomes: str, is_failed: bool = False) -> list[dict[str, int]]:
    known = [tuple(letters(side) for side in f"{each}/".split("/")[:2]) for each in outcomes]
    found = confirmation.next_runs(known, is_failed=is_failed)  # type: ignore[arg-type]
    return [{key[1]: runs for key, runs in side.items()} for side in found]


def test_what_looks_new_comes_first_then_what_fails_alone_then_the_others() -> None:
    both = Confirmation([suspect("new", paired=True), suspect("old", paired=False)], level=SURE)
    assert wanted(both, "", "") == [{"new": 1}, {}]
    assert wanted(both, "F", "") == [{"new": 1}, {"new": 1}]
    assert wanted(both, "FFF/PP", "") == [{}, {"new": 1}]
    assert wanted(both, "P", "") == [{"old": 1}, {}]  # a slip: the other first
    assert wanted(both, "P", "F") == [{"old": 1}, {}]
    assert wanted(both, "P", "FF") == [{"old": 2}, {}]
    assert wanted(both, "P", "FFFF") == [{"old": 4}, {}]
    assert wanted(both, "P", "P") == [{"new": 1}, {"new": 1}]
    assert wanted(both, "FFF/PPP", "P") == [{}, {}]
    # red for certain: what is the author's is named, the rest is not paid for
    assert wanted(both, "F", "", is_failed=True) == [{"new": 1}, {"new": 1}]
    assert wanted(both, "FFF/PPP", "", is_failed=True) == [{}, {}]


@given(st.floats(1e-6, 0.05), st.lists(st.booleans(), min_size=60, max_size=60), st.booleans())
def test_it_comes_to_an_end(level: float, coins: list[bool], paired: bool) -> None:
    confirmation = Confirmation([suspect("x", paired=paired)], level=level)
    known: tuple[list[bool], list[bool]] = ([], [])
    tosses = iter(coins * 3)
    for _ in range(100):
        head, base = confirmation.next_runs([known], is_failed=False)
        if not head and not base:
            break
        for side, more in zip(known, (head, base), strict=True):
            side += [next(tosses) for _ in range(sum(more.values()))]
    assert confirmation.states([known])[0].finding is not Finding.OPEN
    assert max(map(len, known)) <= max(confirmation._pairs[-1], confirmation._alone + confirm.SECOND_CHANCE)


def test_enough_failures_fail_a_suite_for_certain() -> None:
    run = sides.run([["F", "F", "P", "P"]])
    one, two = frozenset({CASE}), frozenset({CASE, (sides.SUITE, "c1")})
    assert confirm.is_failed(run, one, policy=Policy())
    assert not confirm.is_failed(run, one, policy=Policy(pass_rate=0.7))
    assert confirm.is_failed(run, two, policy=Policy(pass_rate=0.7))


@pytest.mark.parametrize(
    ("text", "fresh", "lacks", "runs", "told"),
    [
        # one rerun shows that there are no replies: the agent is not asked twice more
        ("F/P", "?/", Reason.JUDGE_NOT_RECORDED, [], ["judge-not-recorded"]),
        ("F/F", "?", Reason.JUDGE_NOT_RECORDED, [], ["judge-not-recorded"]),
        ("F/P", "F/?", Reason.JUDGE_NOT_RECORDED, [], ["judge-not-recorded"]),
        ("F/P", "?/", Reason.JUDGE_UNAVAILABLE, ["c0"], []),  # an outage may be over
        # some other criterion than the judge's says that it fails
        ("P/P ; F/P", "?/P ; F/P", Reason.JUDGE_NOT_RECORDED, ["c0"], []),
        # what the recording has counts
        ("F/P", "FFF/PPP", Reason.JUDGE_NOT_RECORDED, [], []),
    ],
)
def test_a_replayed_judge_that_has_no_reply_for_reruns_leaves_the_failure_standing(
    text: str, fresh: str, lacks: Reason, runs: list[str], told: list[str]
) -> None:
    _, asked, head = rerun(text, fresh)
    base = rerun(text, fresh)[0].base
    assert base is not None
    unknown = NotEvaluated(reason=lacks, message="nothing is recorded for this question")
    head, base = (
        dataclasses.replace(
            run,
            confirmations=tuple(
                dataclasses.replace(
                    trial,
                    grades={name: unknown if each == sides.OUTAGE else each for name, each in trial.grades.items()},
                )
                for trial in run.confirmations
            ),
        )
        for run in (head, base)
    )
    wanted = asked[0].next_runs(asked[0].outcomes(head, base), is_failed=False)
    assert [key[1] for key in wanted[0]] == runs
    assert [problem.code for problem in confirm.unrecorded(asked, head=head, base=base)] == told
    comparison = sides.compare_runs(head, base, policy=Policy())
    settled = confirm.settle(comparison, asked, head=head)
    assert comparison_verdict.decide(head, Policy(), comparison=settled, asked=asked).blocks


def test_unconfirmed_failures_of_files_are_told() -> None:
    settled, asked, head = rerun("F/P", "F/P")
    problems = confirm.not_run(asked, head=head, base=settled.base)
    assert [problem.code for problem in problems] == ["fresh-runs-missing"]
    settled, asked, head = rerun("F/P", "FFF/PPP")
    assert confirm.not_run(asked, head=head, base=settled.base) == ()
