"""What reads text that others wrote: a row for each family of parsers, with what it refuses by its
own error."""

from __future__ import annotations

import functools
import json
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from builders import build
from builders.labels import calibrated
from pydantic import ValidationError

from evalgate import criteria
from evalgate.agents import protocol, toolbox
from evalgate.config import load, places
from evalgate.criteria import (
    final_response_match_v2,
    hallucinations_v1,
    rubrics,
)
from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.formats import (
    criteria_file,
    eval_set,
    fingerprints,
    kind,
    recordings,
)
from evalgate.judges import base, prompting, replay
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    Content,
    FailureKind,
    Inputs,
    Invocation,
    Rubric,
    Score,
    Text,
    Transcript,
    Trial,
    TrialKey,
)
from evalgate.results import file, history, output, run_parts
from evalgate.results.journal import Journal
from evalgate.system.http import Answer
from evalgate.text import diff, markdown, plain, templates, workflow_commands as commands
from evalgate.wings import replay as wings_replay
from evalgate.wings.author import generate
from evalgate.wings.calibrate import agreement, labels
from evalgate.wings.calibrate.labels import LabelProblem
from evalgate.wings.ces import cases as ces_cases, compare as ces_compare, live, read as ces_read
from evalgate.wings.ces.read import Kind as CesKind
from evalgate.wings.ces.shapes import LOCAL_APP, content_of
from evalgate.wings.google_cloud import criteria as google_criteria, eval_config

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import judge_replies  # noqa: E402 - after the path

SEEDS = Path(__file__).parent / "seeds"
LONGEST_LINE: Final = 5_000


@dataclass(frozen=True)
class Family:
    """A reader and texts that it takes. Whatever it raises is a fault."""

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]

    def all_seeds(self) -> list[bytes]:
        """The family's own texts, then what once was a fault."""
        kept = sorted((SEEDS / self.name).glob("*")) if (SEEDS / self.name).is_dir() else []
        return [*self.seeds(), *(path.read_bytes() for path in kept)]


def _text(data: bytes, name: str) -> str:
    decoded = plain.decode(data, file=name)
    return data.decode("utf-8", "surrogateescape") if isinstance(decoded, Problem) else decoded


def _examples(*patterns: str) -> list[bytes]:
    return [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="evalgate-fuzz-"))


def _written(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


# --- evaluation files, configs, evalgate.yml ------------------------------------------------------


def _read_evaluation(data: bytes) -> None:
    text = _text(data, "a.evalset.json")
    kind.kind_of(text, file="a.evalset.json")
    reading = eval_set.parse_eval_set(text, file="a.evalset.json")
    for case in reading.eval_set.cases if reading.eval_set else ():
        fingerprints.of_case(case)
    recordings.parse_recordings(text, file="a.json")
    key, _, cases = wings_replay.split_cases(text) or ("", None, [])
    for _, raw in cases:
        recordings.parse_case(raw, key=key, eval_set_id=None, file="a.json")


def _evaluations() -> list[bytes]:
    turn = {
        "invocation_id": "i",
        "user_content": {
            "role": "user",
            "parts": [{"text": "hi"}, {"inline_data": {"mime_type": "a/b", "data": "aGk="}}],
        },
        "final_response": {"role": "model", "parts": [{"text": "ho"}]},
        "intermediate_data": {
            "tool_uses": [{"name": "t", "args": {"x": 1}, "id": "1"}],
            "tool_responses": [{"name": "t", "response": {"y": [1.5]}, "id": "1"}],
            "intermediate_responses": [["agent", [{"text": "hm"}]]],
        },
        "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "polite"}, "type": "T"}],
    }
    session = {"app_name": "a", "user_id": "u", "state": {"k": None}}
    scenario = {"starting_prompt": "hi", "conversation_plan": "ask", "user_persona": "NOVICE"}
    cases = [
        {
            "eval_id": "a",
            "conversation": [turn, turn],
            "session_input": session,
            "final_session_state": {"k": 1},
        },
        {"eval_id": "b", "conversation_scenario": scenario},
    ]
    events = [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}},
        {
            "author": "agent",
            "content": {"parts": [{"functionCall": {"name": "t", "args": {}}}]},
            "usageMetadata": {},
        },
    ]
    result = {
        "eval_case_results": [
            {"eval_id": "a", "eval_metric_result_per_invocation": [{"actual_invocation": turn}]}
        ]
    }
    old = [
        {
            "query": "q",
            "expected_tool_use": [{"tool_name": "t", "tool_input": {"a": 1}}],
            "reference": "r",
        }
    ]
    made = [
        {"eval_set_id": "s", "eval_cases": cases},
        old,
        {"id": "s", "app_name": "a", "events": events},
        result,
        events,
    ]
    lines = "\n".join(json.dumps(each) for each in events)
    return [
        *(json.dumps(each).encode() for each in made),
        lines.encode(),
        *_examples("examples/**/*.evalset.json"),
    ]


def _read_ces(data: bytes) -> None:
    text = _text(data, "a.json")
    for name in ("evaluations/a/a.json", "evals/a.yaml"):
        found = ces_read.kind_of(text, file=name)
        for each in (
            {found or CesKind.EVALUATION, CesKind.APP} if name.endswith("json") or found else ()
        ):
            for resource in ces_read.parse(text, file=name, kind=each).resources:
                ces_compare.relaxed_reasons(
                    list(ces_compare.changes({}, content_of(resource.message)))
                )
    ces_cases.eval_sets(
        ces_read.library({"evaluations/a/a.json": text, "evaluations/b/b.json": text}), {}
    )


def _ces_files() -> list[bytes]:
    app = {
        "evaluationMetricsThresholds": {"goldenHallucinationMetricBehavior": "ENABLED"},
        "evaluationPersonas": [
            {"displayName": "a", "personality": "b", "speechConfig": {"speakingRate": 1.2}}
        ],
    }
    yaml = b"""\
conversations:
  - conversation: a
    session_parameters: [{name: b, value: 1}]
    turns:
      - {user: hi, agent: [ho], tool_calls: [{action: t, args: {x: {$matchType: ignore}}, output: ok}]}
"""
    goals = b"evals:\n  - name: a\n    steps: [{goal: g, success_criteria: s, max_turns: 3}]\n"
    tests = b"tests:\n  - name: a\n    tool: t\n    expectations: {response: [{path: $.a, operator: equals}]}\n"
    return [json.dumps(app).encode(), yaml, goals, tests, *_examples("tests/data/ces/*.json")]


def _read_ces_app(data: bytes) -> None:
    """What a live app gives, as `evalgate ces` reads it, and the mask of what differs from what the
    files have."""
    try:
        raw = Answer(status=200, body=data).json()
    except ValueError:
        return
    for each_kind, shape in ces_read.SHAPES.items():
        message, problems = ces_read.parse_message(raw, each_kind, file="a", unknown=[])
        assert (message is None) == any(one.severity is Severity.ERROR for one in problems)
        if message is not None:
            theirs = live.move_to_app(content_of(message), LOCAL_APP, {("tools", "t"): "a"})
            for mine in ({}, _ces_seed(each_kind), theirs):
                assert bool(live.mask(theirs, mine, shape)) == bool(
                    theirs != mine and (theirs or mine)
                )
                live.mask(mine, theirs, shape)


@functools.cache
def _ces_seed(kind: CesKind) -> dict[str, Any]:
    """A resource of the kind, where there is an example of it."""
    for data in _ces_app_answers():
        raw = json.loads(data)
        if (
            ces_read.kind_of(data.decode(), file="app.json" if kind is CesKind.APP else "a.json")
            is kind
        ):
            message, _ = ces_read.parse_message(raw, kind, file="a", unknown=[])
            return content_of(message) if message else {}
    return {}


def _ces_app_answers() -> list[bytes]:
    span: dict[str, Any] = {"name": "s", "childSpans": [{"duration": "1s", "childSpans": [{}]}]}
    turn = {"steps": [{"userInput": {"text": "a", "newer": 1}}], "rootSpan": span}
    made = [
        {
            "displayName": "a",
            "name": "p",
            "etag": "e",
            "golden": {"turns": [turn]},
            "newer": {"x": [1]},
        },
        {
            "displayName": "a",
            "name": "p",
            "evaluations": ["projects/p/locations/l/apps/a/evaluations/b"],
        },
    ]
    return [
        *(json.dumps(each).encode() for each in made),
        *_ces_files()[:1],
        *_examples("tests/data/ces/*.json"),
    ]


def _read_config(data: bytes) -> None:
    text = _text(data, "test_config.json")
    for reading in (
        criteria_file.parse_criteria(text, file="test_config.json"),
        eval_config.parse_eval_config(text, file="eval_config.yaml"),
    ):
        for use in reading.criteria:
            spec = criteria.pick(use.name)
            if spec is not None:
                with suppress(ValidationError):  # told where the criteria are checked
                    spec.options.model_validate(dict(use.options))
        if reading.simulator is not None and reading.simulator.custom_instructions:
            templates.problem_of(reading.simulator.custom_instructions)


def _configs() -> list[bytes]:
    judge = {
        "judge_model": "gemini-2.5-flash",
        "num_samples": 3,
        "judge_model_config": {"temperature": 0},
    }
    made = {
        "criteria": {
            "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
            "response_match_score": 0.8,
            "final_response_match_v2": {"threshold": 0.5, "judge_model_options": judge},
            "rubric_based_final_response_quality_v1": {
                "threshold": 0.5,
                "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "polite"}}],
            },
            "mine": 0.5,
        },
        "custom_metrics": {"mine": {"code_config": {"name": "a.b"}}},
        "user_simulator_config": {
            "model": "m",
            "max_allowed_invocations": 3,
            "custom_instructions": "{{ stop_signal }}",
        },
    }
    yaml = b"metrics_to_run: [a, b]\ncustom_metrics:\n  - name: a\n    threshold: 1\n    rubric: &r {x: y}\nmore: *r\n"
    return [json.dumps(made).encode(), yaml, *_examples("examples/**/test_config.json")]


def _read_gate_file(data: bytes) -> None:
    text = _text(data, "evalgate.yml")
    load.parse_gate_file(text, file="evalgate.yml")
    path = _written("evalgate.yml", data)
    with suppress(EvalgateError):
        settings = load.load_settings({"root": str(path.parent)})
        load.render_command(settings, folder="a")
        load.policy_of(settings, [])


def _gate_files() -> list[bytes]:
    made = b"""\
paths: [evals, "a/**/*.json"]
fail-on: [error, regression]
runs: {default: 3}
env: [OPENAI_API_KEY]
output: evalgate-report
pass_rate: 0.9
agents:
  - match: "evals/*"
    module: a.b
    options: {x: 1}
suites:
  - {match: "evals/**", pass_rate: 0.5, severity: advisory}
judge: {model: gemini-2.5-pro, num_samples: 3, config: {temperature: 0}, budget: {calls: 5, usd: 1.5}, replay: v.jsonl}
simulator: {model: m, on_turn_limit: pass}
tools: {mode: replay, checks: [{tool: t, args: {x: {regex: "a+"}}}]}
compare: {response_match_score: {gating: true, max_drop: 0.1}}
"""
    agents = b"agents:\n  - {match: '*', command: [python, a.py]}\n  - {match: b, http: {url: 'http://127.0.0.1/${X}'}}\n"
    return [made, agents, b"a: &a [1, 2]\nb: [*a, *a]\n", *_examples("examples/**/evalgate.yml")]


# --- what an agent says ---------------------------------------------------------------------------


def _read_protocol(data: bytes) -> None:
    for line in data.splitlines() or [b""]:
        with suppress(protocol.ProtocolError):
            protocol.parse_worker_message(line)


def _messages() -> list[bytes]:
    content = {
        "role": "model",
        "parts": [{"text": "a"}, {"function_call": {"name": "t", "args": {"x": 1}}}],
    }
    messages: list[dict[str, Any]] = [
        {"type": "ready", "protocol": 1, "sessions": 4, "about": {"framework": "x"}},
        {
            "type": "event",
            "session": "s",
            "author": "a",
            "content": content,
            "usage": {"prompt_tokens": 1},
        },
        {"type": "turn_end", "session": "s", "state": {"k": [1]}, "timings": {"total_s": 1.5}},
        {
            "type": "error",
            "session": "s",
            "kind": "rate_limited",
            "message": "m",
            "retry_after_s": 3,
        },
        {"type": "tool_call", "session": "s", "call": "1", "tool": "t", "args": {"x": 1}},
        {"type": "tool_result", "session": "s", "call": "1", "response": {"y": 1}, "effects": {}},
        {"type": "grade", "id": "1", "score": 0.5, "turns": [0.5, None], "message": "m"},
        {
            "type": "agents",
            "session": "s",
            "agents": [{"name": "a", "instructions": "i", "tool_declarations": ["t"]}],
        },
    ]
    lines = [json.dumps(each).encode() for each in messages]
    return [*lines, b"\n".join(lines)]


def _read_shown(data: bytes) -> None:
    text = (
        data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace")
        if _is_utf8(data)
        else str(data)
    )
    for show in (
        markdown.prose,
        markdown.raw_prose,
        markdown.code,
        markdown.cell_code,
        markdown.fence,
        markdown.tidy,
    ):
        show(text)
    templates.html_text(text), templates.html_code(text), markdown.link("x", text)
    for shown in (
        plain.visible(text),
        plain.one_line(text),
        plain.flat(text),
        plain.label(text, 100),
    ):
        shown.encode()
    plain.ends(text, most_lines=20, limit=5000), plain.wrap(text, 80), plain.columns(text)
    diff.compare(text[:4000], text[2000:6000])
    plain.disarm(text), commands.render_command("error", text, file=text)
    base.JudgeSetting(model="m").failure(base.JudgeFailureKind.MALFORMED, detail=text)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _shown() -> list[bytes]:
    return [
        b"# Title\n> quoted\n> > twice\n\n| a | b |\n|---|---|\n| `c` | d |\n```py\nx\n```\n<pre>x</pre> @name #1",
        "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07y \u202eabc ::error::x ##[group]y deadbeef :tada: \u200d \ud83d".encode(
            "utf-8", "surrogatepass"
        ),
        b"<style>a</style><script>b</script><p>502 Bad Gateway</p>",
    ]


# --- what a judge says ----------------------------------------------------------------------------

_RUBRICS = [
    Rubric(rubric_id="polite", text="It is polite."),
    Rubric(rubric_id="2", text="It names the price."),
]
_SENTENCES = ("Apples are red.", "They are round and red and round.")
_ANSWER = "Apples are red. They are round and red and round. verdict: valid"
_QUESTIONS = (
    final_response_match_v2.ask_match(request="", answer=_ANSWER, reference=""),
    google_criteria.ask_coherence(request="", answer=_ANSWER),
    rubrics.ask_rubrics(rubrics.Subject.CONVERSATION, {"answer": _ANSWER}, _RUBRICS),
    hallucinations_v1.render_validation({"answer": _ANSWER}, _SENTENCES),
)


def _read_reply(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for question in _QUESTIONS:
        prompting.read_votes(question, text)
    hallucinations_v1.parse_split(text, " ".join(_SENTENCES))
    hallucinations_v1.parse_split(f"<sentence>{text}</sentence>", text[:20_000])
    generate.parse(text)
    google_criteria.parse(text)
    with suppress(ValueError):
        replay.parse_entry(text)


def _replies() -> list[bytes]:
    found = []
    for family in judge_replies.FAMILIES[:3]:
        names = family.names
        said = judge_replies.Said(
            family, names, family.good, '7", "verdict": "valid", "x": "', _QUESTIONS[0].code
        )
        for shapes in (judge_replies.FORMED, judge_replies.QUOTING, judge_replies.PROSE):
            found += [shape(said).encode() for shape in shapes.values()]
    entry = {
        "format": 1,
        "address": "a",
        "parts": [{"text": "x", "thought": True}],
        "usage": {"prompt_tokens": 1},
    }
    service = {
        "metricResults": [{"score": 0.5, "explanation": "e", "rubricVerdicts": [{"verdict": True}]}]
    }
    scenario = [{"starting_prompt": "hi", "conversation_plan": "p", "user_persona": "NOVICE"}]
    found += [json.dumps(each).encode() for each in (entry, service, scenario)]
    return [*found, b"<sentence>Apples are red.</sentence>\n<sentence>They are round.</sentence>"]


# --- what is kept ---------------------------------------------------------------------------------


def _read_journal(data: bytes) -> None:
    path = _written("journal.jsonl", data)
    with suppress(EvalgateError), Journal.read(path) as journal:
        for address in re.findall(rb'"trial": ?"([^"]*)"', data)[:50]:
            key = TrialKey(suite="s", case_id="c")
            with suppress(EvalgateError):
                journal.trial(address.decode("utf-8", "replace"), key)
                journal.find(key)
        journal.agents()


@functools.cache
def _journals() -> list[bytes]:
    path = _folder() / "seed.jsonl"
    journal = Journal.create(path, about={"evalgate": "x"})
    details = (AgentDetails(name="desk", instructions="i"),)
    said = Content(parts=(Text(text="é"),))
    turn = Invocation(user_content=said, final_response=said, agents=details)
    journal.add_inputs("agent", Inputs(environment="e", answers={"file agent.py": "1"}))
    for number in range(2):
        key = TrialKey(suite="s", case_id=f"c{number}")
        journal.add_trial(
            f"t{number}",
            Trial(key=key, outcome=Transcript(invocations=(turn,), final_state={"a": 1})),
        )
        journal.add_grade(
            f"g{number}", Score(value=number, turns=(1.0, None), breakdown={"x": 0.5})
        )
    failure = AgentFailure(kind=FailureKind.RAISED, message="m", turn=1)
    journal.add_trial("f", Trial(key=TrialKey(suite="s", case_id="f"), outcome=failure))
    journal.close()
    return [path.read_bytes()]


def _read_results(data: bytes) -> None:
    path = _written("results.json", data)
    for read in (file.read_results, run_parts.read_durations):
        with suppress(EvalgateError):
            read(path, shown_as="results.json")
    with suppress(EvalgateError):
        file.read_untrusted(data, shown_as="results.json")
    with suppress(ValueError):
        agreement.parse(data.decode("utf-8", "replace"))


class _Kept:
    def find_json(self, _: TrialKey) -> None:
        return None

    def agents(self) -> dict[str, tuple[AgentDetails, ...]]:
        return {}


@functools.cache
def _results() -> list[bytes]:
    report = build.report("pass fail pass/fail error unjudged")
    made = "".join(file.render_results(report, outcomes=_Kept()))
    return [made.encode(), b'{"a.evalset.json": {"c": 1.5}}', _calibration()]


def _calibration() -> bytes:
    from evalgate.model.calibration import Calibration

    made = Calibration(
        evalgate="1",
        made_at="2026-01-01T00:00:00Z",
        labels_file="l",
        criteria=(calibrated("y/y n/n y/?"),),
    )
    return agreement.render_file(made).encode()


def _read_cassette(data: bytes) -> None:
    with suppress(toolbox.CassetteError):
        entries = toolbox.parse_cassette(_text(data, "c.json"))
        toolbox.render_cassette(entries, suite="s", case="c")
        for entry in entries:
            for other in entries[:5]:
                toolbox.difference(entry.args, other.args)
                toolbox.matches(entry.args, other.args)
                toolbox.matches(entry.response, "a" * 3000)


def _cassettes() -> list[bytes]:
    calls = [
        {
            "tool": "t",
            "args": {"x": {"y": 1.0}, "token": "***a***"},
            "nth": 1,
            "response": "a***a***b",
        },
        {
            "tool": "t",
            "args": {"x": {"y": 2}},
            "error": {"type": "E", "message": "m"},
            "effects": {"a": 1},
        },
    ]
    return [
        json.dumps({"evalgate_cassette": 1, "suite": "s", "case": "c", "calls": calls}).encode()
    ]


def _read_labels(data: bytes) -> None:
    reading = labels.parse_labels(_text(data, "labels.jsonl"), file="labels.jsonl")
    for label in reading.labels:
        labelled = labels.labelled_spec(label.line.criterion)
        if labelled is not None:
            with suppress(LabelProblem):
                label.line.evidence(labelled[0], name=label.line.criterion)


def _labels() -> list[bytes]:
    texts = {"user": "how much?", "answer": "seven", "reference": "7"}
    turn = {
        "user_content": {"parts": [{"text": "q"}]},
        "final_response": {"parts": [{"text": "a"}]},
    }
    lines = [
        {"criterion": "final_response_match_v2", "label": "valid", **texts},
        {"criterion": "hallucinations_v1", "label": "supported", "sentence": "seven", **texts},
        {
            "criterion": "rubric_based_tool_use_quality_v1",
            "label": "no",
            "rubric": "r",
            "conversation": [turn],
        },
        {
            "criterion": "final_response_match_v2",
            "label": True,
            "suite": "s",
            "case": "c",
            "turn": 1,
        },
    ]
    return [b"\n".join(json.dumps(each).encode() for each in lines), json.dumps(lines[0]).encode()]


def _read_history(data: bytes) -> None:
    with suppress(output.Unreadable):
        past = history.parse_history(data)
        history.render_history(past)
        history.trends(past, {"m": 0.5})
    history.parse_names(data.decode("utf-8", "replace").splitlines())
    places.compiled(tuple(data.decode("utf-8", "replace")[:LONGEST_LINE].splitlines()))


@functools.cache
def _histories() -> list[bytes]:
    from evalgate.results.history import PastRuns

    summary = history.summary_of(build.report("pass fail pass/fail error").run, commit="c")
    past = history.update(history.update(PastRuns(), summary), summary)
    return [
        history.render_history(past),
        b"20260101T000000Z-" + b"a" * 40 + b".json.gz\n",
        b"evals/\n!a\n**/*.json\n",
    ]


FAMILIES: Final = {
    each.name: each
    for each in (
        Family("evaluation", _read_evaluation, _evaluations),
        Family("ces", _read_ces, _ces_files),
        Family("ces_app", _read_ces_app, _ces_app_answers),
        Family("config", _read_config, _configs),
        Family("gate_file", _read_gate_file, _gate_files),
        Family("protocol", _read_protocol, _messages),
        Family("journal", _read_journal, _journals),
        Family("results", _read_results, _results),
        Family("reply", _read_reply, _replies),
        Family("cassette", _read_cassette, _cassettes),
        Family("labels", _read_labels, _labels),
        Family("history", _read_history, _histories),
        Family("shown", _read_shown, _shown),
    )
}
