"""The files of an evaluation, as users write them: the kinds, and the reader of each kind."""

from __future__ import annotations

from .base import FORMATS
from .criteria_file import parse_criteria
from .eval_set import parse_eval_set
from .kind import CriteriaReading, Dialect, EvalSetReading, FileKind, kind_of

CASE_FILES = (FileKind.EVAL_SET, FileKind.DATASET)
"""Kinds with cases, which `parse_eval_set` reads."""

__all__ = [
    "CASE_FILES",
    "FORMATS",
    "CriteriaReading",
    "Dialect",
    "EvalSetReading",
    "FileKind",
    "kind_of",
    "parse_criteria",
    "parse_eval_set",
]
