"""An evaluation file of any dialect: the shape decides which, then that dialect's problems are reported."""

from __future__ import annotations

from typing import Any

from evalgate.formats import adk, old_lists
from evalgate.formats.readings import Dialect, EvalSetReading
from evalgate.model import EvalSet
from evalgate.wire import documents, eval_sets
from evalgate.wire.ledger import Ledger, Path


def parse_eval_set(text: str, *, file: str) -> EvalSetReading:
    """Read an evaluation file; `file` is its repository-relative name, for messages and missing ids."""
    ledger = Ledger(text, file=file)
    objects = adk.Collector(ledger)
    lists = old_lists.Collector(ledger, case_id=adk.stem(file))

    def each(path: Path, raw: Any, offset: int) -> None:
        (objects if len(path) > 1 else lists).add(path, raw, offset)

    document = documents.read(text, ledger, each=each, streamed=eval_sets.STREAMED)
    if document is None:
        return EvalSetReading(eval_set=None, problems=ledger.problems())
    if document.kind == "object":
        return adk.conclude(document.members, objects, ledger)
    if document.kind == "list":
        return _conclude_list(lists, ledger)
    ledger.error("not-an-eval-set", documents.expected("an evaluation set (an object)", document))
    return EvalSetReading(eval_set=None, problems=ledger.problems())


def _conclude_list(lists: old_lists.Collector, ledger: Ledger) -> EvalSetReading:
    name = adk.stem(ledger.file)
    if lists.dialect is Dialect.UNKNOWN and not ledger.failed:
        ledger.error("not-an-eval-set", "this list is empty; an evaluation set is an object with `eval_cases`")
    eval_set = None if ledger.failed else EvalSet(eval_set_id=name, cases=lists.cases(), name=name)
    return EvalSetReading(eval_set=eval_set, problems=ledger.problems(), dialect=lists.dialect)
