"""The questions of a criterion: each passes the cache, budget and rate limit, and is recorded.

An item passes when more samples say yes than no; a tie is a no (ADK's rule). A sample that failed,
or that skipped the item even when asked again, could have said either, so that an item is decided
only if neither it nor a sample not asked yet could change the outcome. An unknown label is not a
vote (ADK's rule again)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from evalgate.config import context as config_context
from evalgate.config.gate_file import JudgeRule
from evalgate.errors import ConfigError
from evalgate.judges import cache as judges_cache, models, usage
from evalgate.judges.base import (
    FINAL,
    ItemVerdict,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    Sample,
    SampledRequest,
    Undecided,
    Vote,
    VoteCount,
    VoteResult,
)
from evalgate.judges.cache import VerdictCache
from evalgate.judges.clients import Clients, JudgeClient
from evalgate.judges.rate_limit import Clock, RateLimiters
from evalgate.judges.replay import Recorder
from evalgate.judges.usage import JudgeBudget, UsageLedger
from evalgate.model import JudgeUse, Usage

LOOK_S = 0.5
"""How often a call looks whether the program stops."""

_STOPPED = JudgeFailure(
    kind=JudgeFailureKind.CONNECTION, message="the run ended before the judge answered"
)


class VotingPanel:
    """See JudgePanel. One a run, closed at its end.

    The same question asked by two threads at once is asked once. A refusal that every further
    question of a model would meet (a wrong key, no such model) is remembered, and no further
    question goes out."""

    def __init__(
        self,
        clients: Clients,
        *,
        budget: JudgeBudget,
        ledger: UsageLedger,
        cache: VerdictCache | None = None,
        recorder: Recorder | None = None,
        calls_at_once: int = 32,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clients = clients
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
        self._ended = threading.Event()

    def uses(self) -> tuple[JudgeUse, ...]:
        """What each criterion asked so far, and what it cost."""
        return self._ledger.uses()

    def end(self) -> None:
        """Fail the calls that are under way, and all further ones: the program stops, and waits for
        no answer."""
        self._ended.set()
        self._clients.call_off()

    def close(self) -> None:
        """End all calls and waits, let clients go, put the recording in order."""
        self.end()
        with self._lock:
            pools = tuple(self._pools.values())
        for pool in pools:
            # a future that is cancelled would never wake those who wait for it
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
        """See JudgePanel. A ballot's next wave starts when its last one is in, whatever the others
        do."""
        samples_by_request: list[list[Sample]] = [[] for _ in sampled_requests]
        waves: list[list[Future[Sample]]] = [[] for _ in sampled_requests]
        owner: dict[Future[Sample], int] = {}

        def start(which: int) -> None:
            if self._ended.is_set():
                return
            sampled_request = sampled_requests[which]
            pool = self._pool(sampled_request.request.model)
            waves[which] = [
                pool.submit(self._sample, sampled_request, index)
                for index in next_samples(sampled_request, samples_by_request[which])
            ]
            owner.update((future, which) for future in waves[which])

        for which in range(len(sampled_requests)):
            start(which)
        while owner:
            done, _ = futures.wait(owner, return_when=futures.FIRST_COMPLETED)
            for which in {owner.pop(future) for future in done}:
                if all(future.done() for future in waves[which]):
                    for future in waves[which]:
                        owner.pop(future, None)
                    samples_by_request[which].extend(future.result() for future in waves[which])
                    start(which)
        return tuple(
            decide(sampled_request, samples)
            for sampled_request, samples in zip(sampled_requests, samples_by_request, strict=True)
        )

    def _pool(self, model: str) -> ThreadPoolExecutor:
        """The threads that ask a model: its own, since those that wait for one that is down would
        keep others waiting."""
        with self._lock:
            pool = self._pools.get(model)
            if pool is None:
                pool = ThreadPoolExecutor(
                    max_workers=self._calls_at_once, thread_name_prefix="judge"
                )
                self._pools[model] = pool
            return pool

    def _sample(self, sampled_request: SampledRequest, index: int) -> Sample:
        request = replace(sampled_request.request, sample=index)
        try:
            reply = self.ask(request)
        except JudgeFailed as failed:
            return Sample(index=index, failure=failed.failure)
        votes: dict[str, Vote] = dict(sampled_request.parse(reply))
        texts = [reply.text]
        cached = reply.cached
        requests = [request]
        # ADK's arithmetic has no second question for what was passed over; what may be a quote is
        # no vote there either
        lacking = tuple(
            item
            for item in sampled_request.items
            if (
                not votes[item].sure if item in votes else sampled_request.deviations.item_forgotten
            )
        )
        if lacking and sampled_request.again is not None:
            later: Mapping[str, Vote] = {}
            with suppress(JudgeFailed):  # without a second reply the items stay passed over
                requests.append(replace(request, prompt=sampled_request.again(reply, lacking)))
                second = self.ask(requests[-1])
                later = sampled_request.parse(second)
                texts.append(second.text)
                cached = cached and second.cached
            for item in lacking:
                votes |= confirmed(item, votes.pop(item, None), later.get(item))
        final_votes = {item: votes[item] for item in sampled_request.items if item in votes}
        if len(final_votes) < len(sampled_request.items):
            self._forget(*requests)
        return Sample(index=index, votes=final_votes, text="\n".join(texts), cached=cached)

    # --- one question -----------------------------------------------------------------------------

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """See JudgePanel."""
        if self._ended.is_set():
            raise JudgeFailed(_STOPPED)
        address = judges_cache.address_of(request, endpoint=self._clients.endpoint(request.model))
        cached_reply = self._remembered(request, address)
        if cached_reply is not None:
            return cached_reply
        with self._lock:
            future = self._under_way.get(address)
            is_first = future is None
            if future is None:
                future = self._under_way[address] = Future()
        if not is_first:
            reply = replace(future.result(), cached=True)
            self._ledger.read(request)
            return reply
        # whoever asked it meanwhile may have kept the answer between the look above and the lock
        try:
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
        cached_reply = self._cache.read(address) if self._cache is not None else None
        if cached_reply is not None:
            self._ledger.read(request)
            self._keep(request, cached_reply, fresh=False)
        return cached_reply

    def _fetch(self, request: JudgeRequest) -> JudgeReply:
        refusal = self._refusals.get(request.model)
        outcome = refusal or self._spend(request)
        if isinstance(outcome, JudgeFailure):
            if outcome.kind in FINAL and outcome.kind is not JudgeFailureKind.BUDGET_SPENT:
                self._refusals[request.model] = outcome
            raise JudgeFailed(outcome)
        reply = judges_cache.redacted(outcome, self._clients.redact)
        self._keep(request, reply, fresh=not reply.cached)
        return reply

    def _spend(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """Ask at the provider's pace and within the budget, and enter it in the books."""
        try:
            client = self._clients.client(request.model)
        except JudgeFailed as failed:
            self._ledger.failed(request, failed.failure)
            return failed.failure

        def retried(failure: JudgeFailure) -> None:
            self._ledger.retried(request, failure, cost_usd=_cost(client, failure.usage))

        try:
            reply = client.limiter.run(
                lambda: self._ask_paid(client, request), model=request.model, retried=retried
            )
        except JudgeFailed as failed:
            failure = replace(failed.failure, message=self._clients.redact(failed.failure.message))
            self._ledger.failed(request, failure, cost_usd=_cost(client, failure.usage))
            return failure
        if reply.cached:  # a replay
            self._ledger.read(request)
        else:
            self._ledger.add_call(request, usage=reply.usage, cost_usd=_cost(client, reply.usage))
        return reply

    def _ask_paid(self, client: JudgeClient, request: JudgeRequest) -> JudgeReply:
        """Ask once, within the budget; a call that waits to be made again holds no part of it."""
        self._budget.reserve()
        usage: Usage | None = None
        answered = False
        try:
            reply = self._ask_client(client, request)
            usage = reply.usage
            answered = not reply.cached
        except JudgeFailed as failed:
            usage = failed.failure.usage
            answered = failed.failure.usage is not None
            raise
        finally:
            if answered:
                self._budget.settle(tokens=_tokens(usage), cost_usd=_cost(client, usage))
            else:
                self._budget.release()
        return reply

    def _ask_client(self, client: JudgeClient, request: JudgeRequest) -> JudgeReply:
        """Ask once; an endpoint that refuses a response schema is asked without one, then and from
        then on."""
        with_schema = request.schema is not None and request.model not in self._without_schema
        if with_schema:
            try:
                return self._wait_for(client, request)
            except JudgeFailed as failed:
                if failed.failure.kind is not JudgeFailureKind.BAD_REQUEST:
                    raise
        reply = self._wait_for(client, replace(request, schema=None))
        if with_schema:
            self._without_schema.add(request.model)
        return reply

    def _wait_for(self, client: JudgeClient, request: JudgeRequest) -> JudgeReply:
        """The reply, or a failure once the program stops. No client can be called back from a
        provider that is silent, so each is asked on a thread that nobody waits for at the end."""
        future: Future[JudgeReply] = Future()

        def ask() -> None:
            try:
                future.set_result(client.judge.ask(request))
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
                future.set_exception(error)

        if not self._ended.is_set():
            threading.Thread(target=ask, name="judge-call", daemon=True).start()
        while not future.done():
            if self._ended.is_set():
                raise JudgeFailed(_STOPPED)
            futures.wait((future,), timeout=LOOK_S)
        return future.result()

    def _forget(self, *requests: JudgeRequest) -> None:
        """Replies that say nothing are no answers: the next run asks again."""
        for request in requests:
            if self._cache is not None:
                self._cache.forget(
                    judges_cache.address_of(request, endpoint=self._clients.endpoint(request.model))
                )

    def _keep(self, request: JudgeRequest, reply: JudgeReply, *, fresh: bool) -> None:
        if fresh and self._cache is not None:
            endpoint = self._clients.endpoint(request.model)
            self._cache.write(judges_cache.entry_of(request, reply, endpoint=endpoint))
        # whoever answers from recordings has chosen them, and asks no endpoint
        if self._recorder is not None:
            try:
                self._recorder.record(judges_cache.entry_of(request, reply))
            except OSError as error:
                self._warn(f"a judge's reply could not be recorded: {error}")


def _cost(client: JudgeClient, usage: Usage | None) -> float | None:
    return models.cost_usd(model=client.model, provider=client.priced_as, usage=usage)


def _tokens(usage: Usage | None) -> int | None:
    if usage is None:
        return None
    if usage.total_tokens is not None:
        return usage.total_tokens
    return (
        (usage.prompt_tokens or 0) + (usage.candidates_tokens or 0) + (usage.thoughts_tokens or 0)
    )


def confirmed(item: str, first: Vote | None, second: Vote | None) -> Mapping[str, Vote]:
    """The vote on an item that was asked about twice; empty where neither reply is sure and they do
    not agree."""
    agree = first is not None and second is not None and first.label == second.label
    if first is not None and agree:
        return {item: replace(first, sure=True)}
    return {item: second} if second is not None and second.sure else {}


def next_samples(sampled_request: SampledRequest, samples: Sequence[Sample]) -> tuple[int, ...]:
    """The sample indices to ask now, all at once; empty: no further sample can change any item.

    `samples`: those asked so far, which are the first ones. A wave is as long as the
    longest-lasting item needs at the least, so that no sample is asked that could have been spared.
    """
    sample_count = len(samples)
    remaining_count = sampled_request.num_samples - sample_count
    if remaining_count <= 0 or any(
        sample.failure and sample.failure.kind in FINAL for sample in samples
    ):
        return ()
    if sampled_request.exhaustive or not sampled_request.deviations.spared_samples:
        return tuple(range(sample_count, sampled_request.num_samples))
    size = max(
        (_needed(_count(sampled_request, item, samples)) for item in sampled_request.items),
        default=0,
    )
    return tuple(range(sample_count, sample_count + size))


def decide(sampled_request: SampledRequest, samples: Sequence[Sample]) -> VoteResult:
    """The verdict on every item from the samples asked; those not asked count as if they could say
    either."""
    verdicts: dict[str, ItemVerdict] = {}
    for item in sampled_request.items:
        count = _count(sampled_request, item, samples)
        passed = (
            None
            if count.failed and not sampled_request.deviations.sample_raises
            else _decided(count)
        )
        if passed is None:
            undecided, message = _undecided_reason(item, count, samples)
            verdicts[item] = ItemVerdict(
                passed=None, count=count, undecided=undecided, message=message
            )
            continue
        votes = ((sample, sample.votes.get(item)) for sample in samples)
        winner, vote = next(
            (sample, vote) for sample, vote in votes if vote and vote.passed is passed
        )
        verdicts[item] = ItemVerdict(passed=passed, count=count, vote=vote, sample=winner.index)
    return VoteResult(items=verdicts, samples=tuple(samples))


def _needed(count: VoteCount) -> int:
    """The fewest further samples that decide the item; 0 if it is decided, or cannot be any
    more."""
    if _decided(count) is not None:
        return 0
    for more in range(1, count.remaining + 1):
        remainder = count.open - more
        wins = count.positives + more > count.negatives + remainder
        loses = count.negatives + more >= count.positives + remainder
        if wins or loses:
            return more
    return 0


def _decided(count: VoteCount) -> bool | None:
    if count.positives > count.negatives + count.open:
        return True
    if count.negatives and count.negatives >= count.positives + count.open:
        return False
    return None


def _count(sampled_request: SampledRequest, item: str, samples: Sequence[Sample]) -> VoteCount:
    votes = [sample.votes.get(item) for sample in samples if sample.failure is None]
    sides = [vote.passed for vote in votes if vote is not None]
    silent = votes.count(None)
    asked_again = sampled_request.again is not None and sampled_request.deviations.item_forgotten
    return VoteCount(
        positives=sides.count(True),
        negatives=sides.count(False),
        unreadable=sides.count(None) + (0 if asked_again else silent),
        failed=len(samples) - len(votes),
        passed_over=silent if asked_again else 0,
        remaining=sampled_request.num_samples - len(samples),
    )


def _undecided_reason(
    item: str, count: VoteCount, samples: Sequence[Sample]
) -> tuple[Undecided, str]:
    failures = [sample.failure for sample in samples if sample.failure]
    if failures:
        cause = next((failure for failure in failures if failure.kind in FINAL), failures[0])
        return (
            Undecided.UNAVAILABLE,
            f"{_part(len(failures), len(samples))} failed: {cause.message}",
        )
    if not samples:
        return Undecided.UNAVAILABLE, "the judge was not asked"
    about = f" about `{item}`" if item else ""
    if count.passed_over:
        say = "says" if count.passed_over == 1 else "say"
        who = _part(count.passed_over, len(samples))
        return Undecided.UNREADABLE, f"{who} {say} nothing{about}, even on a second try"
    none = (
        "the only sample gives none"
        if len(samples) == 1
        else f"none of {len(samples)} samples gives one"
    )
    return Undecided.UNREADABLE, f"{none} of the labels{about}"


def _part(count: int, total: int) -> str:
    """`the only sample`, `all 3 samples`, `1 of 3 samples`."""
    if count == total:
        return "the only sample" if total == 1 else f"all {total} samples"
    return f"{count} of {total} samples"


def open_panel(
    models_asked: Iterable[str],
    *,
    drivers: Mapping[str, JudgeDriver],
    defaults: JudgeRule,
    environment: Mapping[str, str],
    cache: Path | None,
    warn: Callable[[str], None],
    clock: Clock | None = None,
    limiters: RateLimiters | None = None,
    oldest_s: float = 0.0,
) -> VotingPanel:
    """A panel for a run that asks `models_asked`; to be closed. `cache`: absolute folder, None:
    nothing is remembered; `oldest_s`: see `VerdictCache`. `limiters`: those of the run's agents;
    None: judges have their own.

    Clients are opened when they are first asked. Raises ConfigError on a budget in money with a
    model of unknown price, and on a recording that cannot be written."""
    time = limiters.clock if limiters else clock or Clock()
    clients = Clients(
        drivers, defaults=defaults, environment=environment, clock=time, limiters=limiters
    )
    if defaults.budget.usd is not None:
        usage.check_priced(
            defaults.budget, {model: clients.is_priced(model) for model in models_asked}
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
