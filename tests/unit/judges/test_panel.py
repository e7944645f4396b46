"""The panel: votes with real threads, the cache, the budget, refusals, second questions and
accounts."""

from __future__ import annotations

import dataclasses
import threading
import traceback
from pathlib import Path

import pytest
from builders.judging import (
    USAGE,
    HeldClock,
    ScriptedJudge,
    failure,
    panel,
    reply,
    request,
    requests,
    seen,
    votes_in,
)

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.judges import replay
from evalgate.judges.base import (
    JudgeFailed,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    SampledRequest,
)
from evalgate.judges.panel import UsageLedger
from evalgate.judges.replay import Recorder, VerdictCache, read_recordings
from evalgate.model import Reason


def ballot(
    prompt: str = "is it valid?", *, num_samples: int = 5, **fields: object
) -> SampledRequest:
    return SampledRequest(requests=requests(prompt, count=num_samples), parse=votes_in, **fields)


def by_sample(*said: str) -> ScriptedJudge:
    return ScriptedJudge(lambda asked: said[asked.sample])


# --- votes ----------------------------------------------------------------------------------------


def test_five_that_agree_take_three_calls() -> None:
    judge, ledger = by_sample(*["valid"] * 5), UsageLedger()
    result = panel(judge, ledger=ledger).vote(ballot())
    assert seen(result.items[""]).passed is True
    assert sorted(asked.sample for asked in judge.requests) == [0, 1, 2]
    assert [sample.text for sample in result.samples] == ["valid"] * 3
    [account] = ledger.uses()
    assert (account.calls, account.cached, account.prompt_tokens) == (3, 0, 300)
    assert account.cost_usd is not None


def test_exhaustive_asks_all() -> None:
    judge = by_sample(*["valid"] * 5)
    panel(judge).vote(ballot(exhaustive=True))
    assert len(judge.requests) == 5


def test_a_wave_is_asked_at_once() -> None:
    together = threading.Barrier(3)

    class Meeting(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            together.wait(timeout=10)  # breaks where the three are not asked in parallel
            return reply("valid")

    assert seen(panel(Meeting(lambda _: "")).vote(ballot()).items[""]).passed is True


def test_several_ballots_are_held_at_once_and_come_in_order() -> None:
    judge = ScriptedJudge(lambda asked: "valid" if asked.prompt in ("0", "2") else "invalid")
    results = panel(judge).vote_all([ballot(str(number)) for number in range(4)])
    assert [seen(result.items[""]).passed for result in results] == [True, False, True, False]


def test_no_ballots() -> None:
    assert panel(by_sample()).vote_all([]) == ()


def test_what_the_criterion_raises_while_reading_comes_out() -> None:
    def broken(_: JudgeReply) -> dict[str, object]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        panel(by_sample(*["x"] * 5)).vote(dataclasses.replace(ballot(), parse=broken))


# --- second questions -----------------------------------------------------------------------------


def again(sample: int, items: tuple[str, ...]) -> JudgeRequest:
    return request(f"you forgot {' and '.join(items)}", sample=sample)


def test_what_a_reply_passes_over_is_asked_for_once_more() -> None:
    judge = ScriptedJudge(lambda asked: "b=no a=no" if "forgot" in asked.prompt else "a=yes")
    result = panel(judge).vote(ballot(items=("a", "b"), num_samples=1, again=again))
    assert [asked.prompt for asked in judge.requests] == ["is it valid?", "you forgot b"]
    assert seen(result.items["a"]).passed is True  # its first word stands
    assert seen(result.items["b"]).passed is False
    assert result.samples[0].text == "a=yes\nb=no a=no"


def test_what_is_passed_over_twice_is_not_evaluated() -> None:
    judge = ScriptedJudge(lambda _: "a=yes")
    result = panel(judge).vote(ballot(items=("a", "b"), num_samples=1, again=again))
    assert len(judge.requests) == 2
    assert (seen(result.items["a"]).passed, seen(result.items["b"]).undecided) == (
        True,
        Reason.JUDGE_UNREADABLE,
    )


def test_a_failed_second_question_leaves_the_first_votes() -> None:
    judge = ScriptedJudge(lambda asked: "<blocked>" if "forgot" in asked.prompt else "a=yes")
    result = panel(judge).vote(ballot(items=("a", "b"), num_samples=1, again=again))
    assert (seen(result.items["a"]).passed, seen(result.items["b"]).passed) == (True, None)


def test_items_that_nobody_asked_about_are_no_votes() -> None:
    result = panel(by_sample("a=yes z=no")).vote(ballot(items=("a",), num_samples=1))
    assert list(result.samples[0].votes) == ["a"]


# --- the cache ------------------------------------------------------------------------------------


def test_a_second_run_asks_nobody(tmp_path: Path) -> None:
    first, second, ledger = (
        by_sample(*["valid"] * 5),
        by_sample(*["<unauthorized>"] * 5),
        UsageLedger(),
    )
    before = panel(first, cache=VerdictCache(tmp_path)).vote(ballot())
    after = panel(second, cache=VerdictCache(tmp_path), ledger=ledger).vote(ballot())
    assert (len(first.requests), len(second.requests)) == (3, 0)
    assert after.items == before.items
    assert all(sample.cached for sample in after.samples)
    [account] = ledger.uses()
    assert (account.calls, account.cached, account.cost_usd) == (0, 3, None)


def test_another_server_is_asked_itself_and_either_can_be_recorded(tmp_path: Path) -> None:
    cache, said = VerdictCache(tmp_path), []
    for base_url, word in (
        ("", "valid"),
        ("http://a/v1", "invalid"),
        ("http://b/v1", "perhaps"),
        ("http://a/v1", "-"),
    ):
        recording = tmp_path / f"{word}.jsonl"
        defaults, recorder = JudgeRule(client="gemini", base_url=base_url), Recorder(recording)
        said.append(
            panel(by_sample(word), cache=cache, defaults=defaults, recorder=recorder)
            .ask(request())
            .text
        )
        assert list(read_recordings(recording)) == [
            replay.address_of(request())
        ]  # answered from without any server
    assert said == ["valid", "invalid", "perhaps", "invalid"]


def test_failures_are_never_kept(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    with pytest.raises(JudgeFailed):
        panel(by_sample("<blocked>"), cache=cache).ask(request())
    assert list(tmp_path.rglob("*.json")) == []
    assert panel(by_sample("valid"), cache=cache).ask(request()).text == "valid"


def test_a_reply_that_says_nothing_is_not_kept(tmp_path: Path) -> None:
    cache, items = VerdictCache(tmp_path), ("a", "b")
    # the next run asks again, and is told
    for said, passed in (("a=yes", None), ("a=yes b=no", False)):
        result = panel(by_sample(said, said), cache=cache).vote(
            ballot(items=items, num_samples=1, again=again)
        )
        assert seen(result.items["b"]).passed is passed
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_an_answer_that_comes_between_the_look_and_the_question_is_not_asked_for_again(
    tmp_path: Path,
) -> None:
    judge, ledger = by_sample("valid"), UsageLedger()
    replies: list[JudgeReply] = []

    class Overtaken(VerdictCache):
        def read(self, address: str) -> JudgeReply | None:
            found = super().read(address)
            if not other.ident:
                other.start()
                other.join(timeout=0.1)  # from its look to its answer, if it can
            return found

    held = panel(judge, ledger=ledger, cache=Overtaken(tmp_path))
    other = threading.Thread(target=lambda: replies.append(held.ask(request())))
    replies.append(held.ask(request()))
    other.join(timeout=10)
    assert sorted(reply.cached for reply in replies) == [False, True]
    assert len(judge.requests) == 1
    [account] = ledger.uses()
    assert (account.calls, account.cached) == (1, 1)


def test_the_same_question_at_once_is_asked_once(tmp_path: Path) -> None:
    entered, go = threading.Event(), threading.Event()

    class Slow(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            entered.set()
            go.wait(timeout=10)
            return super().ask(asked)

    judge, ledger = Slow(lambda _: "valid"), UsageLedger()
    held = panel(judge, ledger=ledger, cache=VerdictCache(tmp_path))
    replies: list[JudgeReply] = []
    threads = [
        threading.Thread(target=lambda: replies.append(held.ask(request()))) for _ in range(4)
    ]
    threads[0].start()
    entered.wait(timeout=10)
    for thread in threads[1:]:
        thread.start()
    while sum(thread.is_alive() for thread in threads) < 4:
        pass
    go.set()
    for thread in threads:
        thread.join(timeout=10)
    assert [each.text for each in replies] == ["valid"] * 4
    [account] = ledger.uses()
    assert account.calls == len(judge.requests) == 1
    assert account.calls + account.cached == 4


# --- failures and refusals ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unauthorized", "forbidden", "model_missing", "quota_spent"])
def test_a_refusal_is_heard_once(kind: str) -> None:
    judge = by_sample(*[f"<{kind}>"] * 5)
    held = panel(judge)
    first = held.vote(ballot("one"))
    calls = len(judge.requests)
    second = held.vote(ballot("two"))
    assert calls <= 3
    assert len(judge.requests) == calls
    for result in (first, second):
        is_refused = kind in ("unauthorized", "forbidden")
        reason = Reason.CREDENTIALS_MISSING if is_refused else Reason.JUDGE_UNAVAILABLE
        assert seen(result.items[""]).undecided is reason
        assert f"{kind} happened" in seen(result.items[""]).message


def test_one_blocked_sample_of_five_changes_nothing() -> None:
    result = panel(by_sample("valid", "<blocked>", "valid", "valid", "valid")).vote(ballot())
    assert (seen(result.items[""]).passed, len(result.samples)) == (True, 4)
    assert result.samples[1].failure is not None


def test_a_model_that_nobody_serves() -> None:
    result = panel(by_sample()).vote(
        dataclasses.replace(ballot(), requests=requests(model="omega-1"))
    )
    assert "unknown judge model `omega-1`" in seen(result.items[""]).message
    assert result.samples[0].failure is not None
    assert result.samples[0].failure.kind is JudgeFailureKind.NOT_CONFIGURED


def test_a_spent_budget_is_not_measured_and_what_was_judged_stays() -> None:
    judge = ScriptedJudge(lambda _: "valid")
    held = panel(judge, limits=BudgetRule(calls=3))
    assert seen(held.vote(ballot("one")).items[""]).passed is True
    result = held.vote(ballot("two"))
    assert (seen(result.items[""]).passed, seen(result.items[""]).undecided) == (
        None,
        Reason.JUDGE_UNAVAILABLE,
    )
    assert "the judges' budget of 3 calls is spent" in seen(result.items[""]).message
    assert len(judge.requests) == 3


def test_a_call_that_waits_to_be_made_again_holds_no_budget() -> None:
    """Two calls are left; the model that is down waits for its second try while another asks for
    both."""
    down, go = threading.Event(), threading.Event()

    class Waiting(HeldClock):
        def sleep(self, seconds: float) -> bool:
            down.set()
            return go.wait(timeout=10) and super().sleep(seconds)

    judge = ScriptedJudge(
        lambda asked: "<server_error>" if asked.model == "gemini-2.0-flash" else "valid"
    )
    held = panel(judge, limits=BudgetRule(calls=2), clock=Waiting())
    failed: list[JudgeFailed] = []

    def ask_the_one_that_is_down() -> None:
        with pytest.raises(JudgeFailed) as raised:
            held.ask(request(model="gemini-2.0-flash"))
        failed.append(raised.value)

    thread = threading.Thread(target=ask_the_one_that_is_down)
    thread.start()
    assert down.wait(timeout=10)
    assert [held.ask(request(sample=sample)).text for sample in (0, 1)] == ["valid", "valid"]
    go.set()
    thread.join(timeout=10)
    assert failed[0].failure.kind is JudgeFailureKind.BUDGET_SPENT


def test_a_model_that_is_down_keeps_no_other_from_being_asked() -> None:
    """More of its questions wait to be asked again than threads are there for one model."""
    go = threading.Event()

    class Waiting(HeldClock):
        def sleep(self, seconds: float) -> bool:
            return go.wait(timeout=10) and super().sleep(seconds)

    judge = ScriptedJudge(
        lambda asked: "<server_error>" if asked.model == "gemini-2.0-flash" else "valid"
    )
    held = panel(judge, clock=Waiting())
    waiting = [
        dataclasses.replace(ballot(), requests=requests(str(number), model="gemini-2.0-flash"))
        for number in range(8)
    ]
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.extend(held.vote_all(waiting)))
    thread.start()
    assert seen(held.vote(ballot()).items[""]).passed is True
    assert results == []
    go.set()
    thread.join(timeout=10)
    assert len(results) == 8


def test_what_a_try_cost_that_was_made_again_is_counted() -> None:
    ledger = UsageLedger()

    class Silent(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            self.requests.append(asked)
            if len(self.requests) < 3:
                raise JudgeFailed(failure("empty", usage=reply("").usage))
            return reply("valid")

    panel(Silent(lambda _: ""), ledger=ledger).ask(request())
    [account] = ledger.uses()
    assert (account.calls, account.retries, account.prompt_tokens) == (1, 2, 300)


def test_what_a_cut_reply_cost_is_counted() -> None:
    ledger = UsageLedger()

    class Cut(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            raise JudgeFailed(failure("truncated", usage=reply("").usage))

    held = panel(Cut(lambda _: ""), ledger=ledger, limits=BudgetRule(tokens=100))
    for kind in (JudgeFailureKind.TRUNCATED, JudgeFailureKind.BUDGET_SPENT):
        with pytest.raises(JudgeFailed) as raised:
            held.ask(request(sample=len(kind.value)))
        assert raised.value.failure.kind is kind
    assert ledger.uses()[0].prompt_tokens == 100


def test_an_endpoint_without_schemas_is_asked_without() -> None:
    judge = ScriptedJudge(lambda asked: "<bad_request>" if asked.schema else "valid")
    held = panel(judge)
    for sample in (0, 1):
        assert held.ask(request(schema={"type": "object"}, sample=sample)).text == "valid"
    assert [asked.schema is None for asked in judge.requests] == [False, True, True]


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "end"])  # Ctrl-C that comes twice, and once
def test_calls_under_way_end_with_the_panel_and_nothing_more_is_asked(how: str) -> None:
    """The threads that vote must end though the provider is silent, or the program would not for
    minutes."""
    begun, go, calls = threading.Semaphore(0), threading.Event(), list[str]()

    class Slow(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            calls.append(asked.prompt)
            begun.release()
            go.wait(timeout=30)
            return reply("valid")

    held, found = panel(Slow(lambda _: "")), list[Reason | None]()
    ballots = [ballot(f"question {number}", num_samples=1) for number in range(9)]

    def vote() -> None:
        found.extend(seen(result.items[""]).undecided for result in held.vote_all(ballots))

    thread = threading.Thread(target=vote, daemon=True)
    thread.start()
    for _ in range(4):
        assert begun.acquire(timeout=10)
    getattr(held, how)()
    thread.join(timeout=5)
    go.set()
    assert (len(calls), found) == (4, [Reason.JUDGE_UNAVAILABLE] * 9)


def test_a_failed_call_is_paid_once_where_the_end_comes_before_its_repeat() -> None:
    class Empty(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            raise JudgeFailed(failure("empty", usage=USAGE))

    clock, ledger = HeldClock(), UsageLedger()
    clock.call_off()
    with pytest.raises(JudgeFailed):
        panel(Empty(lambda _: ""), clock=clock, ledger=ledger).ask(request())
    [account] = ledger.uses()
    assert (account.prompt_tokens, account.retries, account.failures) == (
        USAGE.prompt_tokens,
        0,
        {"empty": 1},
    )


# --- recordings -----------------------------------------------------------------------------------


def test_a_run_is_recorded_whether_asked_or_read(tmp_path: Path) -> None:
    cache, path = VerdictCache(tmp_path / "cache"), tmp_path / "judge.jsonl"
    panel(by_sample(*["valid"] * 5), cache=cache).vote(ballot())
    held = panel(by_sample(), cache=cache, recorder=Recorder(path))
    held.vote(ballot())
    held.close()
    assert [entry.reply.text for entry in read_recordings(path).values()] == ["valid"] * 3


def test_what_is_read_is_not_kept_again(tmp_path: Path) -> None:
    judge = ScriptedJudge(lambda _: dataclasses.replace(reply("valid"), cached=True))
    panel(judge, cache=VerdictCache(tmp_path), defaults=JudgeRule(client="replay")).ask(request())
    assert list(tmp_path.rglob("*.json")) == []


def test_a_replay_costs_nothing_and_needs_no_budget() -> None:
    ledger = UsageLedger()
    judge = ScriptedJudge(lambda _: dataclasses.replace(reply("valid"), cached=True))
    held = panel(
        judge, ledger=ledger, limits=BudgetRule(calls=1), defaults=JudgeRule(client="replay")
    )
    for prompt in ("one", "two", "three"):
        held.ask(request(prompt))
    assert (ledger.uses()[0].calls, ledger.uses()[0].cached) == (0, 3)


# --- secrets --------------------------------------------------------------------------------------

KEY = "AIzaSyD-very-secret-0001"


def test_no_secret_in_replies_cache_recording_or_messages(tmp_path: Path) -> None:
    class Leaky(ScriptedJudge):
        def ask(self, asked: JudgeRequest) -> JudgeReply:
            if asked.sample:
                raise JudgeFailed(
                    dataclasses.replace(failure("blocked"), message=f"the key {KEY} is fine")
                )
            return reply(f"valid {KEY}")

    held = panel(
        Leaky(lambda _: ""),
        environment={"GOOGLE_API_KEY": KEY},
        cache=VerdictCache(tmp_path / "cache"),
        recorder=Recorder(tmp_path / "judge.jsonl"),
    )
    assert held.ask(request()).text == "valid ***"
    with pytest.raises(JudgeFailed) as raised:
        held.ask(request(sample=1))
    held.close()
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert KEY not in repr(raised.value.__context__)
    assert raised.value.failure.message == "the key *** is fine"
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 2
    assert all(KEY not in text for text in written)


def test_many_threads_vote_at_once() -> None:
    """As grading does: each thread holds its own ballots, and the clients are shared."""
    judge = ScriptedJudge(lambda asked: "valid" if int(asked.prompt) % 2 else "invalid")
    held = panel(judge)
    passed: dict[int, bool | None] = {}

    def grade(first: int) -> None:
        results = held.vote_all([ballot(str(number)) for number in range(first, first + 5)])
        passed.update(
            {first + at: seen(result.items[""]).passed for at, result in enumerate(results)}
        )

    threads = [threading.Thread(target=grade, args=(first,)) for first in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert passed == {number: bool(number % 2) for number in range(40)}
    assert len(judge.requests) == 120
