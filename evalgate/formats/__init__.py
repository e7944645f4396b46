"""The files of an evaluation, as users write them: the kinds, and the reader of each kind."""

from __future__ import annotations

from evalgate.formats.agents_cli_config import parse_dataset_config
from evalgate.formats.base import FORMATS
from evalgate.formats.criteria_file import parse_criteria
from evalgate.formats.eval_set import parse_eval_set
from evalgate.formats.kind import CriteriaReading, Dialect, EvalSetReading, FileKind, kind_of

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
    "parse_dataset_config",
    "parse_eval_set",
]
