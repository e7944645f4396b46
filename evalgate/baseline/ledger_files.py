"""The files beside the runs of a store, made anew with each run: the reliability ledger and the badge."""

from __future__ import annotations

from collections.abc import Mapping

from evalgate.baseline.store import BADGE, LEDGER, Revise, Store, Warn
from evalgate.errors import UnavailableError
from evalgate.gate import reliability
from evalgate.model import ReliabilityLedger, RunSummary
from evalgate.wire import badge
from evalgate.wire import reliability as wire
from evalgate.wire.reliability import UnreadableLedger


def adding(summary: RunSummary, *, warn: Warn = lambda _: None) -> Revise:
    """What `Store.save` is to do with the ledger: add this run.

    An unreadable ledger starts anew, with a warning; that of a later evalgate stays as it is, with one.
    """

    def revise(stored: bytes | None) -> Mapping[str, bytes]:
        try:
            ledger = wire.parse_ledger(stored) if stored is not None else ReliabilityLedger()
        except UnreadableLedger as error:
            if error.newer:
                warn(f"this run was not added to the reliability ledger: {error}")
                return {}
            warn(f"the reliability ledger is unreadable and starts over: {error}")
            ledger = ReliabilityLedger()
        updated = reliability.update(ledger, summary)
        return {
            LEDGER: wire.render_ledger(updated).encode("utf-8", "replace"),
            BADGE: badge.render_badge(reliability.examine(updated)).encode(),
        }

    return revise


def read_ledger(store: Store) -> ReliabilityLedger | None:
    """The ledger of a store; None where there is none.

    Raises UnavailableError where the store is out of reach or what it has is no ledger: that is not the same as none.
    """
    stored = store.read(LEDGER)
    if stored is None:
        return None
    try:
        return wire.parse_ledger(stored)
    except UnreadableLedger as error:
        raise UnavailableError(f"it is damaged: {error}" if not error.newer else str(error)) from error
