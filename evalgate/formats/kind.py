"""The kind of a file, by its name and the first keys of its content; fast for files of any size."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Collection
from posixpath import basename
from typing import Any

from evalgate.errors import Place, Problem
from evalgate.model import CriterionUse, EvalSet, SimulatorUse
from evalgate.model.shapes import to_snake
from evalgate.values import frozen_dataclass


class FileKind(enum.StrEnum):
    """The kinds of files that names do not tell apart."""

    EVAL_SET = "eval-set"  # *.evalset.json, *.test.json of ADK
    DATASET = "dataset"  # agents-cli: *-dataset.json
    DATASET_CONFIG = "dataset-config"  # agents-cli: eval_config.yaml
    OTHER = "other"  # neither cases nor a config of agents-cli


class Dialect(enum.StrEnum):
    """The forms of evaluation files."""

    ADK = "adk"  # {eval_set_id, eval_cases}; also in camelCase, which ADK rejects
    FLAT_LIST = "flat-list"  # [{query, reference, expected_tool_use}]: one case
    NAMED_LIST = "named-list"  # [{name, data: [{query, ...}], initial_session}]
    AGENTS_CLI = "agents-cli"  # {eval_cases: [{eval_case_id, prompt, reference, agent_data}]}
    UNKNOWN = "unknown"  # none of these


OLD_LISTS = (Dialect.FLAT_LIST, Dialect.NAMED_LIST)
"""ADK's two old formats."""


@frozen_dataclass
class EvalSetReading:
    """The result of reading an evaluation file."""

    eval_set: EvalSet | None
    """None if any problem is an error, because a part of a file is never run."""
    problems: tuple[Problem, ...] = ()
    dialect: Dialect = Dialect.UNKNOWN


@frozen_dataclass
class CriteriaReading:
    """The result of reading a criteria file."""

    criteria: tuple[CriterionUse, ...] = ()
    """The valid ones."""
    simulator: SimulatorUse | None = None
    """ADK's `user_simulator_config`, or None."""
    simulator_place: Place | None = None
    problems: tuple[Problem, ...] = ()
    is_compared: bool = False
    """True if criteria may lack a threshold, because the base decides."""
    metrics: frozenset[str] = frozenset()
    """The names of all metrics that the file defines."""


_MARKS_BY_KIND = {
    "results of a run": {"eval_case_results", "eval_set_result_id"},
    "an evaluation set": {"eval_cases", "eval_set_id"},
    "criteria": {"criteria"},
}


def describe_keys(keys: Collection[str]) -> str:
    """The kind of an object with these keys, such as `results of a run (eval_case_results)`; "" if
    unknown."""
    names = {to_snake(key): key for key in keys}
    for kind, marks in _MARKS_BY_KIND.items():
        if spellings := sorted(names[mark] for mark in marks & names.keys()):
            return f"{kind} (`{spellings[0]}`)"
    for key in ("parts", "content"):
        if "role" in names and key in names:
            return f"chat messages (`role`, `{key}`)"
    return "an evaluation set in the old format (`query`)" if "query" in names else ""


_HEAD = 65_536  # examined characters
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}\[\],:])', re.DOTALL)
_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})([ \t][^\n]*)?\r?$", re.MULTILINE)
DATASET_KEYS = frozenset(
    {"prompt", "agent_data", "eval_case_id", "user_scenario", "conversation_history", "messages"}
)
"""Keys of a case of a dataset."""
ADK_CASE_KEYS = frozenset({"conversation", "conversation_scenario", "eval_id"})
CASE_IDS = frozenset({"eval_id", "eval_case_id"})
"""Keys that only cases of ADK and agents-cli have, also in a list without `eval_cases`."""
_OLD_KEYS = frozenset({"query", "expected_tool_use"})
_SET_KEYS = frozenset({"eval_set_id", "name", "description", "data", "initial_session", "query"})
_METRICS = re.compile(r"""^[\s{]{0,6}["']?(metrics_to_run|custom_metrics)["']?\s*:""", re.MULTILINE)
_OTHER_METRICS = re.compile(r"^(metrics|criteria)\s*:", re.MULTILINE)
_PROSE_KEYS = re.compile(
    r"^(\s+|\s*-\s+)(prompt_template|prompt|rubric|description)\s*:", re.MULTILINE
)


def is_dataset_case(raw: Any) -> bool:
    """True if a case belongs to a dataset: it has a dataset's keys and no ADK keys."""
    if not isinstance(raw, dict):
        return False
    keys = {to_snake(key) for key in raw}
    return bool(keys & DATASET_KEYS) and not keys & ADK_CASE_KEYS


def kind_of(text: str, *, file: str) -> FileKind:
    """The kind of the file named `file` with the content `text`.

    A name that only ADK uses (`*.evalset.json`) decides even if the content is broken, so that its
    errors are reported. A common name (`*.test.json`) needs ADK's content, which is recognized even
    after conflict markers, comments and binary bytes, and in truncated files."""
    name = basename(file).lower()
    if name.endswith((".yaml", ".yml")):
        has_keys = _METRICS.search(text[:_HEAD]) or (
            _OTHER_METRICS.search(text[:_HEAD]) and _PROSE_KEYS.search(text[:_HEAD])
        )
        is_config = name in ("eval_config.yaml", "eval_config.yml") and has_keys
        return FileKind.DATASET_CONFIG if is_config else FileKind.OTHER
    if not name.endswith(".json"):
        return FileKind.OTHER
    kind = _content_kind(text, name)
    is_ours = name.endswith(".evalset.json") or (
        name.endswith((".test.json", "-dataset.json")) and is_cut_off(text)
    )
    return FileKind.EVAL_SET if kind is FileKind.OTHER and is_ours else kind


def is_cut_off(text: str) -> bool:
    """True if a file ends before its kind is clear: it is empty, or has an open bracket and no key
    that is foreign to ADK."""
    top, opening, inner, _ = first_keys(text)
    if len(text) > _HEAD or (inner if opening == "[" else top) - _SET_KEYS:
        return False
    counts = Counter(token[2] for token in _TOKEN.finditer(text))
    return (
        not text.strip("\ufeff\0 \t\r\n") or counts["{"] + counts["["] > counts["}"] + counts["]"]
    )


def _content_kind(text: str, name: str) -> FileKind:
    top, opening, inner, innermost = first_keys(text)
    if top & {"eval_case_results", "eval_set_result_id"}:
        return FileKind.OTHER
    is_named_set = "eval_set_id" in top and name.endswith((".evalset.json", ".test.json"))
    is_list_of_cases = opening == "[" and inner & CASE_IDS
    if "eval_cases" in top or is_named_set or is_list_of_cases:
        has_marks = inner & DATASET_KEYS or (inner and "eval_set_id" not in top)
        is_dataset = is_list_of_cases or (has_marks and not inner & ADK_CASE_KEYS)
        return FileKind.DATASET if is_dataset else FileKind.EVAL_SET
    is_old_list = opening == "[" and (
        inner & _OLD_KEYS or ("data" in inner and innermost & _OLD_KEYS)
    )
    if is_old_list or ("scenarios" in top and inner & {"starting_prompt", "conversation_plan"}):
        return FileKind.EVAL_SET
    is_of_adk = top & {"criteria", "custom_metrics", "user_simulator_config"}
    is_config = name.startswith("eval_config") and "metrics_to_run" in top and not is_of_adk
    return FileKind.DATASET_CONFIG if is_config else FileKind.OTHER


def first_keys(text: str) -> tuple[set[str], str, set[str], set[str]]:
    """The keys of the first object, the opening bracket, and the keys one and two objects
    deeper."""
    head = _CONFLICT.sub("", text[:_HEAD].replace("\0", "")).lstrip("\ufeff \t\r\n")
    if head.startswith('"'):
        head = head[1:].replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n").lstrip()
    keys: dict[int, set[str]] = {}
    depth = 0  # nesting of objects
    last_string = ""
    opening = ""
    for token in _TOKEN.finditer(head):
        mark: str | None = token.group(2)
        if mark is None:
            last_string = token.group(1)
        elif mark == ":":
            keys.setdefault(depth, set()).add(
                to_snake(last_string) if len(last_string) < 100 else ""
            )
        elif mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
        opening = opening or (mark if mark in ("{", "[") else "")
    start = 1 if opening == "{" else 0
    return keys.get(start, set()), opening, keys.get(start + 1, set()), keys.get(start + 2, set())
