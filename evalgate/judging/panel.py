"""What a criterion asks: every question goes past the cache, the budget and the governor, and into the books."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor

from evalgate.judging import entries, prices, voting
from evalgate.judging.budget import Budget
from evalgate.judging.cache import VerdictCache
from evalgate.judging.ledger import Ledger
from evalgate.judging.recording import Recorder
from evalgate.judging.roster import Roster, Seat
from evalgate.model import JudgeUse, Usage
from evalgate.plugins import (
    FINAL,
    Ballot,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    Sample,
    Vote,
    VoteResult,
)


class VotingPanel:
    """See `plugins.Panel`. One a run, closed at its end.

    The same question asked by two threads at once is asked once. A refusal that every further question of a model
    would meet (a wrong key, no such model) is remembered, and no further question goes out.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        budget: Budget,
        ledger: Ledger,
        cache: VerdictCache | None = None,
        recorder: Recorder | None = None,
        calls_at_once: int = 32,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._roster = roster
        self._budget = budget
        self._ledger = ledger
        self._cache = cache
        self._recorder = recorder
        self._warn = warn
        self._calls_at_once = calls_at_once
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[JudgeReply]] = {}
        self._refusals: dict[str, JudgeFailure] = {}
        self._without_schema: set[str] = set()
        self._closed = False

    def uses(self) -> tuple[JudgeUse, ...]:
        """What each criterion asked so far, and what it cost."""
        return self._ledger.uses()

    def close(self) -> None:
        """End all waits, let clients go, put the recording in order; calls not begun fail."""
        with self._lock:
            self._closed = True
            pools = tuple(self._pools.values())
        for pool in pools:
            pool.shutdown(wait=False)  # a future that is cancelled would never wake those who wait for it
        self._roster.close()
        if self._recorder is not None:
            try:
                self._recorder.close()
            except OSError as error:
                self._warn(f"the recording could not be put in order: {error}")

    # --- votes ------------------------------------------------------------------------------------

    def vote(self, ballot: Ballot) -> VoteResult:
        """See `plugins.Panel`."""
        return self.vote_all([ballot])[0]

    def vote_all(self, ballots: Sequence[Ballot]) -> tuple[VoteResult, ...]:
        """See `plugins.Panel`. A ballot's next wave starts when its last one is in, whatever the others do."""
        asked: list[list[Sample]] = [[] for _ in ballots]
        waves: list[list[Future[Sample]]] = [[] for _ in ballots]
        owner: dict[Future[Sample], int] = {}

        def start(which: int) -> None:
            if self._closed:
                return
            ballot = ballots[which]
            pool = self._pool(ballot.request.model)
            waves[which] = [
                pool.submit(self._sample, ballot, index) for index in voting.next_wave(ballot, asked[which])
            ]
            owner.update((future, which) for future in waves[which])

        for which in range(len(ballots)):
            start(which)
        while owner:
            done, _ = futures.wait(owner, return_when=futures.FIRST_COMPLETED)
            for which in {owner.pop(future) for future in done}:
                if all(future.done() for future in waves[which]):
                    for future in waves[which]:
                        owner.pop(future, None)
                    asked[which].extend(future.result() for future in waves[which])
                    start(which)
        return tuple(voting.decide(ballot, samples) for ballot, samples in zip(ballots, asked, strict=True))

    def _pool(self, model: str) -> ThreadPoolExecutor:
        """The threads that ask a model: its own, since those that wait for one that is down would keep others
        waiting."""
        with self._lock:
            pool = self._pools.get(model)
            if pool is None:
                pool = ThreadPoolExecutor(max_workers=self._calls_at_once, thread_name_prefix="judge")
                self._pools[model] = pool
            return pool

    def _sample(self, ballot: Ballot, index: int) -> Sample:
        request = dataclasses.replace(ballot.request, sample=index)
        try:
            reply = self.ask(request)
        except JudgeFailed as failed:
            return Sample(index=index, failure=failed.failure)
        votes: dict[str, Vote] = dict(ballot.parse(reply))
        texts, cached = [reply.text], reply.cached
        lacking = voting.items_passed_over(ballot, votes)
        if lacking and ballot.again is not None and not ballot.adk_compat:
            second = self._ask_again(dataclasses.replace(request, prompt=ballot.again(reply, lacking)))
            if second is not None:
                votes = {**ballot.parse(second), **votes}
                texts.append(second.text)
                cached = cached and second.cached
        kept = {item: votes[item] for item in ballot.items if item in votes}
        return Sample(index=index, votes=kept, text="\n".join(texts), cached=cached, reply=reply)

    def _ask_again(self, request: JudgeRequest) -> JudgeReply | None:
        """The second reply; None where there is none, and the items stay passed over."""
        try:
            return self.ask(request)
        except JudgeFailed:
            return None

    # --- one question -----------------------------------------------------------------------------

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """See `plugins.Panel`."""
        if self._closed:
            raise JudgeFailed(
                JudgeFailure(kind=JudgeFailureKind.CONNECTION, message="the run ended before it was asked")
            )
        address = entries.address(request, endpoint=self._roster.endpoint(request.model))
        found = self._remembered(request, address)
        if found is not None:
            return found
        with self._lock:
            future = self._under_way.get(address)
            mine = future is None
            if future is None:
                future = self._under_way[address] = Future()
        if not mine:
            reply = dataclasses.replace(future.result(), cached=True)
            self._ledger.read(request)
            return reply
        try:  # whoever asked it meanwhile may have kept the answer between the look above and the lock
            reply = self._remembered(request, address) or self._fetch(request)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(reply)
            return reply
        finally:
            with self._lock:
                self._under_way.pop(address, None)

    def _remembered(self, request: JudgeRequest, address: str) -> JudgeReply | None:
        found = self._cache.read(address) if self._cache is not None else None
        if found is not None:
            self._ledger.read(request)
            self._keep(request, found, fresh=False)
        return found

    def _fetch(self, request: JudgeRequest) -> JudgeReply:
        refusal = self._refusals.get(request.model)
        outcome = refusal or self._spend(request)
        if isinstance(outcome, JudgeFailure):
            if outcome.kind in FINAL and outcome.kind is not JudgeFailureKind.BUDGET_SPENT:
                self._refusals[request.model] = outcome
            raise JudgeFailed(outcome)
        reply = entries.redacted(outcome, self._roster.redact)
        self._keep(request, reply, fresh=not reply.cached)
        return reply

    def _spend(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """Ask at the provider's pace and within the budget, and enter it in the books."""
        try:
            seat = self._roster.seat(request.model)
        except JudgeFailed as failed:
            self._ledger.failed(request, failed.failure)
            return failed.failure

        def retried(failure: JudgeFailure) -> None:
            self._ledger.retried(request, failure, cost_usd=_price(seat, failure.usage))

        try:
            reply = seat.governor.run(lambda: self._pay(seat, request), model=request.model, retried=retried)
        except JudgeFailed as failed:
            failure = self._redacted(failed.failure)
            self._ledger.failed(request, failure, cost_usd=_price(seat, failure.usage))
            return failure
        if reply.cached:  # a replay
            self._ledger.read(request)
        else:
            self._ledger.asked(request, usage=reply.usage, cost_usd=_price(seat, reply.usage))
        return reply

    def _pay(self, seat: Seat, request: JudgeRequest) -> JudgeReply:
        """Ask once, within the budget; a call that waits to be made again holds no part of it."""
        self._budget.reserve()
        usage: Usage | None = None
        answered = False
        try:
            reply = self._ask_seat(seat, request)
            usage, answered = reply.usage, not reply.cached
        except JudgeFailed as failed:
            usage, answered = failed.failure.usage, failed.failure.usage is not None
            raise
        finally:
            if answered:
                self._budget.settle(tokens=_tokens(usage), cost_usd=_price(seat, usage))
            else:
                self._budget.release()
        return reply

    def _redacted(self, failure: JudgeFailure) -> JudgeFailure:
        redact = self._roster.redact
        reply = entries.redacted(failure.reply, redact) if failure.reply is not None else None
        return dataclasses.replace(failure, message=redact(failure.message), reply=reply)

    def _ask_seat(self, seat: Seat, request: JudgeRequest) -> JudgeReply:
        """Ask once; an endpoint that refuses a response schema is asked without one, then and from then on."""
        if request.schema is None or request.model in self._without_schema:
            return seat.judge.ask(dataclasses.replace(request, schema=None))
        try:
            return seat.judge.ask(request)
        except JudgeFailed as failed:
            if failed.failure.kind is not JudgeFailureKind.BAD_REQUEST:
                raise
        reply = seat.judge.ask(dataclasses.replace(request, schema=None))
        self._without_schema.add(request.model)
        return reply

    def _keep(self, request: JudgeRequest, reply: JudgeReply, *, fresh: bool) -> None:
        if fresh and self._cache is not None:
            endpoint = self._roster.endpoint(request.model)
            self._cache.write(entries.entry_of(request, reply, endpoint=endpoint))
        if self._recorder is not None:  # whoever answers from recordings has chosen them, and asks no endpoint
            try:
                self._recorder.record(entries.entry_of(request, reply))
            except OSError as error:
                self._warn(f"a judge's reply could not be recorded: {error}")


def _price(seat: Seat, usage: Usage | None) -> float | None:
    return prices.cost_usd(model=seat.model, provider=seat.priced_as, usage=usage)


def _tokens(usage: Usage | None) -> int | None:
    if usage is None:
        return None
    if usage.total_tokens is not None:
        return usage.total_tokens
    return (usage.prompt_tokens or 0) + (usage.candidates_tokens or 0) + (usage.thoughts_tokens or 0)
