"""The nouns of evalgate: frozen values, no behaviour beyond arithmetic on themselves."""

from evalgate.model.calibration import AskedJudge
from evalgate.model.calibration import Calibration
from evalgate.model.calibration import Confusion
from evalgate.model.calibration import ConfusionKind
from evalgate.model.calibration import CriterionCalibration
from evalgate.model.calibration import Example
from evalgate.model.calibration import JudgedCriterion
from evalgate.model.calibration import JudgeIdentity
from evalgate.model.calibration import Label
from evalgate.model.calibration import LabelledVerdict
from evalgate.model.calibration import Rate
from evalgate.model.case import OPEN
from evalgate.model.case import AgentUse
from evalgate.model.case import Case
from evalgate.model.case import ConfigOrigin
from evalgate.model.case import ConversationScenario
from evalgate.model.case import CriteriaSource
from evalgate.model.case import CriterionUse
from evalgate.model.case import EvalSet
from evalgate.model.case import Need
from evalgate.model.case import Persona
from evalgate.model.case import PersonaBehavior
from evalgate.model.case import Scale
from evalgate.model.case import SessionInput
from evalgate.model.case import SimulatorUse
from evalgate.model.case import Suite
from evalgate.model.comparison import AppliedRule
from evalgate.model.comparison import BaseOrigin
from evalgate.model.comparison import BaseSource
from evalgate.model.comparison import CaseComparison
from evalgate.model.comparison import CaseOutcome
from evalgate.model.comparison import CaseStatus
from evalgate.model.comparison import CaseVerdict
from evalgate.model.comparison import Change
from evalgate.model.comparison import ComparedCases
from evalgate.model.comparison import Comparison
from evalgate.model.comparison import CriterionComparison
from evalgate.model.comparison import CriterionRule
from evalgate.model.comparison import CriterionVerdict
from evalgate.model.comparison import Difference
from evalgate.model.comparison import Divergence
from evalgate.model.comparison import FailOn
from evalgate.model.comparison import FailureOrigin
from evalgate.model.comparison import GateKind
from evalgate.model.comparison import GateVerdict
from evalgate.model.comparison import Interval
from evalgate.model.comparison import PassRates
from evalgate.model.comparison import Policy
from evalgate.model.comparison import Power
from evalgate.model.comparison import PValue
from evalgate.model.comparison import RelaxedKind
from evalgate.model.comparison import RelaxedRule
from evalgate.model.comparison import SuiteVerdict
from evalgate.model.comparison import ThresholdRule
from evalgate.model.comparison import Verdict
from evalgate.model.comparison import VerdictKind
from evalgate.model.conversation import AgentDetails
from evalgate.model.conversation import Attachment
from evalgate.model.conversation import Content
from evalgate.model.conversation import Event
from evalgate.model.conversation import Invocation
from evalgate.model.conversation import Json
from evalgate.model.conversation import Part
from evalgate.model.conversation import Rubric
from evalgate.model.conversation import Text
from evalgate.model.conversation import Timings
from evalgate.model.conversation import ToolCall
from evalgate.model.conversation import ToolResponse
from evalgate.model.conversation import Usage
from evalgate.model.report import Links
from evalgate.model.report import Report
from evalgate.model.report import Trend
from evalgate.model.run import FRESH
from evalgate.model.run import USER_SIMULATOR
from evalgate.model.run import GradedTrial
from evalgate.model.run import InMemoryTranscripts
from evalgate.model.run import JudgeUse
from evalgate.model.run import Run
from evalgate.model.run import Shard
from evalgate.model.run import Transcripts
from evalgate.model.trial import INFRASTRUCTURE
from evalgate.model.trial import AgentFailure
from evalgate.model.trial import CaseKey
from evalgate.model.trial import Ending
from evalgate.model.trial import Evidence
from evalgate.model.trial import FailureKind
from evalgate.model.trial import Finding
from evalgate.model.trial import Grade
from evalgate.model.trial import NotEvaluated
from evalgate.model.trial import Opinion
from evalgate.model.trial import Outcome
from evalgate.model.trial import Reason
from evalgate.model.trial import Score
from evalgate.model.trial import Transcript
from evalgate.model.trial import Trial
from evalgate.model.trial import TrialKey
from evalgate.model.comparison import NonBlocking

__all__ = [
    "FRESH",
    "INFRASTRUCTURE",
    "OPEN",
    "USER_SIMULATOR",
    "AgentDetails",
    "AgentFailure",
    "AgentUse",
    "AppliedRule",
    "AskedJudge",
    "Attachment",
    "BaseOrigin",
    "BaseSource",
    "Calibration",
    "Case",
    "CaseComparison",
    "CaseKey",
    "CaseOutcome",
    "CaseStatus",
    "CaseVerdict",
    "Change",
    "ComparedCases",
    "Comparison",
    "ConfigOrigin",
    "Confusion",
    "ConfusionKind",
    "Content",
    "ConversationScenario",
    "CriteriaSource",
    "CriterionCalibration",
    "CriterionComparison",
    "CriterionRule",
    "CriterionUse",
    "CriterionVerdict",
    "Difference",
    "Divergence",
    "Ending",
    "EvalSet",
    "Event",
    "Evidence",
    "Example",
    "FailOn",
    "FailureKind",
    "FailureOrigin",
    "Finding",
    "GateKind",
    "GateVerdict",
    "Grade",
    "GradedTrial",
    "InMemoryTranscripts",
    "Interval",
    "Invocation",
    "Json",
    "JudgeIdentity",
    "JudgeUse",
    "JudgedCriterion",
    "Label",
    "LabelledVerdict",
    "Links",
    "Need",
    "NonBlocking",
    "NotEvaluated",
    "Opinion",
    "Outcome",
    "PValue",
    "Part",
    "PassRates",
    "Persona",
    "PersonaBehavior",
    "Policy",
    "Power",
    "Rate",
    "Reason",
    "RelaxedKind",
    "RelaxedRule",
    "Report",
    "Rubric",
    "Run",
    "Scale",
    "Score",
    "SessionInput",
    "Shard",
    "SimulatorUse",
    "Suite",
    "SuiteVerdict",
    "Text",
    "ThresholdRule",
    "Timings",
    "ToolCall",
    "ToolResponse",
    "Transcript",
    "Transcripts",
    "Trend",
    "Trial",
    "TrialKey",
    "Usage",
    "Verdict",
    "VerdictKind",
]
