"""The questions of a criterion: each passes the cache, budget and rate limit, and is recorded.

An item passes if more samples say yes than no; a tie is a no (ADK's rule). A sample that failed, or
that skipped the item even when asked again, could have said either, so an item is decided only if
neither such samples nor samples that were not asked yet could change the outcome. An unknown label
is not a vote (ADK's rule again)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from evalgate.config import context as config_context
from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.errors import ConfigError
from evalgate.model import JudgeUse, NotEvaluated, Reason, Text, Usage, not_evaluated
from evalgate.model.run import total_of
from evalgate.values import Log, Sentence, mapped_wording, with_keys
from . import JUDGES, models, replay
from .base import (
    FINAL_KINDS,
    REFUSED,
    Judge,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    Sample,
    SampledRequest,
    Vote,
    VoteResult,
)
from .clients import Clients
from .rate_limit import RateLimiters
from .replay import Recorder, VerdictCache

# --- the cost of judges ---------------------------------------------------------------------------


class JudgeBudget:
    """Counts completed calls and running calls; safe for many threads.

    A running call is expected to cost the average of the calls so far, so that concurrent calls
    exceed the limits only by little: at most by the cost of the first ones. If only running calls
    could use up the budget, others wait: failed calls are free and leave room."""

    def __init__(self, limits: BudgetRule) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._calls = 0
        self._tokens = 0
        self._cost_usd = 0.0
        self._under_way = 0

    def reserve(self) -> None:
        """Reserve one call right before it is made. Raises JudgeFailed(BUDGET_SPENT)."""
        with self._changed:
            while self._reached_limit(self._under_way):
                reached_limit = self._reached_limit(0)
                if reached_limit:
                    message = Sentence("judges_budget_spent", *reached_limit)
                    raise JudgeFailed(
                        JudgeFailure(kind=JudgeFailureKind.BUDGET_SPENT, message=message)
                    )
                self._changed.wait()
            self._under_way += 1

    def settle(
        self, usage: Usage | None = None, cost_usd: float | None = None, *, is_paid: bool = True
    ) -> None:
        """Enter the cost of a reserved call. It was answered, or failed for free if it is not
        paid."""
        tokens = usage or Usage()
        total = tokens.total_tokens
        if total is None:
            counts = (tokens.prompt_tokens, tokens.candidates_tokens, tokens.thoughts_tokens)
            total = sum(filter(None, counts))
        with self._changed:
            self._under_way -= 1
            if is_paid:
                self._calls += 1
                self._tokens += total
                self._cost_usd += cost_usd or 0.0
            self._changed.notify_all()

    def _reached_limit(self, under_way: int) -> tuple[str, float] | None:
        """The limit that is reached if `under_way` more calls are answered: its unit, and its
        number."""
        limits = self._limits
        calls = self._calls
        if limits.calls is not None and calls + under_way >= limits.calls:
            return "calls", limits.calls
        for unit, spent, limit in (
            ("tokens", self._tokens, limits.tokens),
            ("usd", self._cost_usd, limits.usd),
        ):
            if limit is None:
                continue
            # calls under way at the average price, which is unknown before the first answer
            if spent * (calls + under_way) >= limit * calls if calls else limit <= 0:
                return unit, limit
        return None


class UsageLedger:
    """The use of judges in one run; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[tuple[str, str], JudgeUse] = {}

    def add(self, request: JudgeRequest, usage: Usage | None = None, **counts: Any) -> None:
        """Enter a call. `counts`: fields of `JudgeUse`, such as `cached=1`. An answered call, and
        one with a known `usage`, was paid for, perhaps at an unknown price."""
        is_paid = usage is not None or "calls" in counts
        cost_usd = models.cost_usd(request.model, usage)
        tokens = usage or Usage()
        criterion = request.asker.criterion
        use = JudgeUse(
            criterion=criterion,
            model=request.model,
            prompt_tokens=(tokens.prompt_tokens or 0) + (tokens.tool_use_prompt_tokens or 0),
            output_tokens=(tokens.candidates_tokens or 0) + (tokens.thoughts_tokens or 0),
            cost_usd=cost_usd,
            unpriced=int(is_paid and cost_usd is None),
            **counts,
        )
        key = (criterion, request.model)
        with self._lock:
            uses = [self._uses[key], use] if key in self._uses else [use]
            self._uses[key] = total_of(uses, criterion=criterion, model=request.model)

    def uses(self) -> tuple[JudgeUse, ...]:
        """The current use, ordered by criterion and model."""
        with self._lock:
            return tuple(use for _, use in sorted(self._uses.items()))


# --- the panel ------------------------------------------------------------------------------------

STOP_CHECK_S = 0.5
"""Interval in which a call checks whether the program stops, in seconds."""


def _run_ended() -> JudgeFailed:
    return JudgeFailed(
        JudgeFailure(kind=JudgeFailureKind.CONNECTION, message=Sentence("run_ended"))
    )


class VotingPanel:
    """See JudgePanel. One per run, closed at its end.

    If two threads ask the same question at once, it is asked once. A refusal that every further
    question of a model would meet (a wrong key, no such model) is stored, and no further question
    is sent."""

    def __init__(
        self,
        clients: Clients,
        *,
        budget: JudgeBudget,
        ledger: UsageLedger,
        cache: VerdictCache | None = None,
        recorder: Recorder | None = None,
        calls_at_once: int = 32,
        warn: Log = lambda _: None,
    ) -> None:
        self._clients = clients
        self._budget = budget
        self._ledger = ledger
        self._cache = cache
        self._recorder = recorder
        self._warn = warn
        # each model has its own threads: those that wait for a broken model would block others
        self._pools: defaultdict[str, ThreadPoolExecutor] = defaultdict(
            partial(ThreadPoolExecutor, calls_at_once, thread_name_prefix="judge")
        )
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[JudgeReply]] = {}
        self._refusals: dict[str, JudgeFailure] = {}
        self._without_schema: set[str] = set()
        self._ended = threading.Event()

    def uses(self) -> tuple[JudgeUse, ...]:
        """The use of judges by each criterion so far, with its cost."""
        return self._ledger.uses()

    def end(self) -> None:
        """Fail the calls that are under way, and all further ones: the program stops without
        waiting for answers."""
        self._ended.set()
        self._clients.call_off()

    def close(self) -> None:
        """End all calls and waits, close clients, sort the recording."""
        self.end()
        with self._lock:
            pools = tuple(self._pools.values())
        for pool in pools:
            # a cancelled future would never wake the threads that wait for it
            pool.shutdown(wait=False)
        self._clients.close()
        if self._recorder is not None:
            try:
                self._recorder.close()
            except OSError as error:
                self._warn(f"the recorded replies could not be sorted: {error}")

    # --- votes ------------------------------------------------------------------------------------

    def vote(self, sampled_request: SampledRequest) -> VoteResult:
        """See JudgePanel."""
        return self.vote_all([sampled_request])[0]

    def vote_all(self, sampled_requests: Sequence[SampledRequest]) -> tuple[VoteResult, ...]:
        """See JudgePanel. The next wave of a request starts when its last wave is complete,
        independent of other requests."""
        samples_by_request: list[list[Sample]] = [[] for _ in sampled_requests]
        waves: dict[int, list[Future[Sample]]] = {}

        def start_wave(position: int) -> None:
            if self._ended.is_set():
                return
            sampled_request = sampled_requests[position]
            with self._lock:
                pool = self._pools[sampled_request.requests[0].model]
            waves[position] = [
                pool.submit(self._sample, sampled_request, index)
                for index in next_samples(sampled_request, samples_by_request[position])
            ]

        for position in range(len(sampled_requests)):
            start_wave(position)
        while waves:
            running = [future for wave in waves.values() for future in wave if not future.done()]
            futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for position in list(waves):
                if all(future.done() for future in waves[position]):
                    samples = [future.result() for future in waves.pop(position)]
                    samples_by_request[position] += samples
                    if samples:
                        start_wave(position)
        return tuple(map(decide, sampled_requests, samples_by_request))

    def _sample(self, sampled_request: SampledRequest, index: int) -> Sample:
        request = sampled_request.requests[index]
        try:
            reply = self.ask(request)
        except JudgeFailed as error:
            return Sample(index=index, failure=error.failure)
        votes: dict[str, Vote] = dict(sampled_request.parse(reply))
        texts = [reply.text]
        cached = reply.cached
        requests = [request]
        # ADK's arithmetic has no second question for skipped items; a possible quote is not a vote
        # there either
        missing_items = tuple(
            item
            for item in sampled_request.items
            if (
                not votes[item].sure if item in votes else sampled_request.deviations.item_forgotten
            )
        )
        if missing_items and sampled_request.again is not None:
            second_votes: Mapping[str, Vote] = {}
            with suppress(JudgeFailed):  # without a second reply the items stay skipped
                requests.append(sampled_request.again(index, missing_items))
                second_reply = self.ask(requests[-1])
                second_votes = sampled_request.parse(second_reply)
                texts.append(second_reply.text)
                cached = cached and second_reply.cached
            for item in missing_items:
                votes |= confirm_vote(item, votes.pop(item, None), second_votes.get(item))
        final_votes = with_keys(votes, sampled_request.items)
        if len(final_votes) < len(sampled_request.items) and self._cache is not None:
            for request in requests:  # the next run asks again
                self._cache.forget(self._address(request))
        return Sample(index=index, votes=final_votes, text="\n".join(texts), cached=cached)

    # --- one question -----------------------------------------------------------------------------

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """See JudgePanel."""
        if self._ended.is_set():
            raise _run_ended()
        address = self._address(request)
        new_future: Future[JudgeReply] = Future()
        with self._lock:
            future = self._under_way.setdefault(address, new_future)
        if future is not new_future:
            # it cost nothing, and is neither counted nor kept once more
            reply = JudgeReply(parts=future.result().parts, cached=True)
            self._ledger.add(request, cached=1)
            return reply
        try:
            cached_reply = self._cache.read(address) if self._cache is not None else None
            if cached_reply is not None:
                self._ledger.add(request, cached=1)
                self._keep(request, cached_reply, is_fresh=False)
            reply = cached_reply or self._fetch(request)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(reply)
            return reply
        finally:
            with self._lock:
                self._under_way.pop(address, None)

    def _fetch(self, request: JudgeRequest) -> JudgeReply:
        refusal = self._refusals.get(request.model)
        outcome = refusal or self._spend(request)
        if isinstance(outcome, JudgeFailure):
            if outcome.kind in FINAL_KINDS and outcome.kind is not JudgeFailureKind.BUDGET_SPENT:
                self._refusals[request.model] = outcome
            raise JudgeFailed(outcome)
        redact = self._clients.redact
        parts = (Text(text=redact(part.text), thought=part.thought) for part in outcome.parts)
        reply = replace(outcome, parts=tuple(parts))
        self._keep(request, reply, is_fresh=not reply.cached)
        return reply

    def _spend(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """Ask at the provider's pace and within the budget, and record it in the ledger."""
        try:
            judge, limiter = self._clients.client(request.model)
            reply = limiter.run(
                lambda: self._ask_paid(judge, request),
                model=request.model,
                retried=lambda failure: self._ledger.add(request, failure.usage, retries=1),
            )
        except JudgeFailed as error:
            failure = error.failure
            self._ledger.add(request, failure.usage, failures={failure.kind.value: 1})
            message = mapped_wording(failure.message, self._clients.redact)
            return JudgeFailure(kind=failure.kind, message=message)
        if reply.cached:  # a replay
            self._ledger.add(request, cached=1)
        else:
            self._ledger.add(request, reply.usage, calls=1)
        return reply

    def _ask_paid(self, judge: Judge, request: JudgeRequest) -> JudgeReply:
        """Ask once, within the budget. A call that waits for its next attempt does not hold a part
        of it."""
        self._budget.reserve()
        usage: Usage | None = None
        is_paid = False
        try:
            reply = self._ask_judge(judge, request)
            is_paid = not reply.cached
            usage = reply.usage if is_paid else None  # the table of prices takes a second to load
        except JudgeFailed as error:
            usage = error.failure.usage
            is_paid = usage is not None
            raise
        finally:
            self._budget.settle(usage, models.cost_usd(request.model, usage), is_paid=is_paid)
        return reply

    def _ask_judge(self, judge: Judge, request: JudgeRequest) -> JudgeReply:
        """Ask once. An endpoint that refuses a response schema is asked without one, now and
        later."""
        sends_schema = request.schema is not None and request.model not in self._without_schema
        if sends_schema:
            try:
                return self._wait_for(judge, request)
            except JudgeFailed as error:
                if error.failure.kind is not JudgeFailureKind.BAD_REQUEST:
                    raise
        reply = self._wait_for(judge, replace(request, schema=None))
        if sends_schema:
            self._without_schema.add(request.model)
        return reply

    def _wait_for(self, judge: Judge, request: JudgeRequest) -> JudgeReply:
        """The reply, or a failure once the program stops. A client cannot be interrupted while a
        provider is silent, so each call runs on a thread that nobody joins."""
        future: Future[JudgeReply] = Future()

        def ask() -> None:
            try:
                future.set_result(judge.ask(request))
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it again
                future.set_exception(error)

        if not self._ended.is_set():
            threading.Thread(target=ask, name="judge-call", daemon=True).start()
        while not future.done():
            if self._ended.is_set():
                raise _run_ended()
            futures.wait((future,), timeout=STOP_CHECK_S)
        return future.result()

    def _address(self, request: JudgeRequest) -> str:
        return replay.address_of(request, endpoint=self._clients.endpoint(request.model))

    def _keep(self, request: JudgeRequest, reply: JudgeReply, *, is_fresh: bool) -> None:
        if is_fresh and self._cache is not None:
            endpoint = self._clients.endpoint(request.model)
            self._cache.write(replay.entry_of(request, reply, endpoint=endpoint))
        # a user who replays recordings chose them, and no endpoint is asked
        if self._recorder is not None:
            try:
                self._recorder.record(replay.entry_of(request, reply))
            except OSError as error:
                self._warn(f"a judge's reply could not be recorded: {error}")


def confirm_vote(item: str, first: Vote | None, second: Vote | None) -> Mapping[str, Vote]:
    """The vote on an item that was asked about twice; empty if neither reply is sure and they
    differ."""
    if first is not None and second is not None and first.label == second.label:
        return {item: first}
    return {item: second} if second is not None and second.sure else {}


def next_samples(sampled_request: SampledRequest, samples: Sequence[Sample]) -> tuple[int, ...]:
    """The indexes of the samples to ask now, all at once; empty: no further sample can change an
    item.

    `samples`: those asked so far, from the first on. A wave has as many samples as the slowest item
    needs at least, so that no sample is asked unnecessarily."""
    sample_count = len(samples)
    remaining_count = len(sampled_request.requests) - sample_count
    if remaining_count <= 0 or any(
        sample.failure and sample.failure.kind in FINAL_KINDS for sample in samples
    ):
        return ()
    if sampled_request.exhaustive or not sampled_request.deviations.spared_samples:
        return tuple(range(sample_count, len(sampled_request.requests)))
    needs = (_needed(*_tally(sampled_request, item, samples)) for item in sampled_request.items)
    wave_size = max((count for count in needs if count <= remaining_count), default=0)
    return tuple(range(sample_count, sample_count + wave_size))


def decide(sampled_request: SampledRequest, samples: Sequence[Sample]) -> VoteResult:
    """The verdict on every item from the samples; samples that were not asked could have said
    either."""
    is_void = not sampled_request.deviations.sample_raises and any(
        sample.failure for sample in samples
    )
    verdicts: dict[str, Vote | NotEvaluated] = {}
    for item in sampled_request.items:
        outcome = None if is_void else _outcome(*_tally(sampled_request, item, samples))
        votes = (sample.votes.get(item) for sample in samples)
        verdicts[item] = (
            _lack_of(item, sampled_request, samples)
            if outcome is None
            else next(vote for vote in votes if vote and vote.passed is outcome)
        )
    return VoteResult(request=sampled_request, items=verdicts, samples=tuple(samples))


def _tally(
    sampled_request: SampledRequest, item: str, samples: Sequence[Sample]
) -> tuple[int, int, int]:
    """How many samples said yes to an item, how many no, and how many could have said, or can still
    say, either."""
    votes = [sample.votes.get(item) for sample in samples if sample.failure is None]
    outcomes = [vote.passed for vote in votes if vote is not None]
    unknown_count = len(sampled_request.requests) - len(votes)
    unknown_count += _passed_over(sampled_request, item, samples)
    return outcomes.count(True), outcomes.count(False), unknown_count


def _passed_over(sampled_request: SampledRequest, item: str, samples: Sequence[Sample]) -> int:
    """How many samples said nothing about an item, even when asked again."""
    if sampled_request.again is None or not sampled_request.deviations.item_forgotten:
        return 0
    return sum(sample.failure is None and item not in sample.votes for sample in samples)


def _needed(positives: int, negatives: int, open_votes: int) -> int:
    """The fewest further samples that decide an item; 0 if it is decided. More than there are if it
    can no longer be decided."""
    if _outcome(positives, negatives, open_votes) is not None:
        return 0
    to_win = (negatives + open_votes - positives) // 2 + 1
    to_lose = (positives + open_votes - negatives + 1) // 2
    return min(to_win, to_lose)


def _outcome(positives: int, negatives: int, open_votes: int) -> bool | None:
    if positives > negatives + open_votes:
        return True
    if negatives and negatives >= positives + open_votes:
        return False
    return None


def _lack_of(item: str, sampled_request: SampledRequest, samples: Sequence[Sample]) -> NotEvaluated:
    """Why an item is undecided."""
    failures = [sample.failure for sample in samples if sample.failure]
    if failures:
        cause = next((failure for failure in failures if failure.kind in FINAL_KINDS), failures[0])
        kinds = {failure.kind for failure in failures}
        reason = Reason.JUDGE_UNAVAILABLE
        if kinds & REFUSED:
            reason = Reason.CREDENTIALS_MISSING
        elif kinds == {JudgeFailureKind.NO_RECORDING}:
            reason = Reason.JUDGE_NOT_RECORDED
        return not_evaluated(reason, "samples_failed", len(failures), len(samples), cause.message)
    if not samples:
        return not_evaluated(Reason.JUDGE_UNAVAILABLE, "judge_not_asked")
    passed_over = _passed_over(sampled_request, item, samples)
    return not_evaluated(
        Reason.JUDGE_UNREADABLE, "samples_unreadable", passed_over, len(samples), item
    )


def open_panel(
    models_asked: Iterable[str],
    *,
    drivers: Mapping[str, JudgeDriver] = JUDGES,
    defaults: JudgeRule,
    environment: Mapping[str, str],
    cache: Path | None,
    warn: Log,
    limiters: RateLimiters | None = None,
    oldest_s: float = 0.0,
) -> VotingPanel:
    """A panel for a run that asks `models_asked`; the caller closes it. `cache`: an absolute
    folder, None: no cache; `oldest_s`: see `VerdictCache`. `limiters`: those of the run's agents;
    None: judges have their own.

    Clients are opened at their first question. Raises ConfigError for a budget in money with a
    model of unknown price, and for a recording that cannot be written."""
    clients = Clients(drivers, defaults=defaults, environment=environment, limiters=limiters)
    if defaults.budget.usd is not None:
        unpriced_models = [name for name in sorted(models_asked) if not clients.is_priced(name)]
        if unpriced_models:
            names = ", ".join(f"`{name}`" for name in unpriced_models)
            raise ConfigError(
                f"no price known for {names}",
                hint="Set the judge budget in calls or tokens.",
            )
    try:
        recorder = Recorder(Path(defaults.record)) if defaults.record else None
    except OSError as error:
        raise ConfigError(
            f"replies cannot be recorded in {defaults.record}: {error.strerror}"
        ) from error
    return VotingPanel(
        clients,
        budget=JudgeBudget(defaults.budget),
        ledger=UsageLedger(),
        cache=None
        if cache is None
        else VerdictCache(
            cache, run=config_context.run_of(environment), warn=warn, oldest_s=oldest_s
        ),
        recorder=recorder,
        calls_at_once=defaults.calls_at_once,
        warn=warn,
    )
