"""The files of an evaluation, as users write them: the kinds, and the reader of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evalgate.formats.agents_cli_config import parse_dataset_config
from evalgate.formats.base import FORMATS
from evalgate.formats.criteria_file import parse_criteria
from evalgate.formats.eval_set import parse_eval_set
from evalgate.formats.kind import CriteriaReading, Dialect, EvalSetReading, FileKind, kind_of

CASE_FILES: Mapping[FileKind, Callable[..., EvalSetReading]] = MappingProxyType(
    {FileKind.EVAL_SET: parse_eval_set, FileKind.DATASET: parse_eval_set}
)
"""Kinds with cases; each is read with `(text, file=...)`."""

CRITERIA_FILES: Mapping[FileKind, Callable[..., CriteriaReading]] = MappingProxyType(
    {FileKind.CRITERIA: parse_criteria, FileKind.DATASET_CONFIG: parse_dataset_config}
)
"""Kinds with criteria; each is read with `(text, file=...)`."""

__all__ = [
    "CASE_FILES",
    "CRITERIA_FILES",
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
