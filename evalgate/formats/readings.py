"""What reading a file gives: its kind, its dialect, what it says, and every problem found on the way."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from evalgate.errors import Problem
from evalgate.model import CriterionUse, EvalSet, SimulatorUse


class FileKind(enum.StrEnum):
    """What a file is for."""

    EVAL_SET = "eval-set"  # *.evalset.json, *.test.json of ADK
    CRITERIA = "criteria"  # test_config.json
    DATASET = "dataset"  # agents-cli: *-dataset.json
    DATASET_CONFIG = "dataset-config"  # agents-cli: eval_config.yaml
    RESULTS = "results"  # *.evalset_result.json
    OTHER = "other"  # nothing of ours


class Dialect(enum.StrEnum):
    """How an evaluation file is written."""

    ADK = "adk"  # {eval_set_id, eval_cases}
    ADK_CAMEL = "adk-camel"  # {evalSetId, evalCases}: clear in meaning, rejected by ADK
    FLAT_LIST = "flat-list"  # [{query, reference, expected_tool_use}]: one case
    NAMED_LIST = "named-list"  # [{name, data: [{query, ...}], initial_session}]
    AGENTS_CLI = "agents-cli"  # {eval_cases: [{eval_case_id, prompt, reference, agent_data}]}
    UNKNOWN = "unknown"  # none of these


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSetReading:
    """`eval_set` is None as soon as one problem is an error: half a file is never run."""

    eval_set: EvalSet | None
    problems: tuple[Problem, ...] = ()
    dialect: Dialect = Dialect.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaReading:
    """`criteria` holds those that were understood; `simulator` is ADK's user_simulator_config; None: there is none."""

    criteria: tuple[CriterionUse, ...] = ()
    simulator: SimulatorUse | None = None
    problems: tuple[Problem, ...] = ()
