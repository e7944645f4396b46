"""agents-cli's eval_config.yaml: the metrics that run, and what is said of those that cannot."""

from __future__ import annotations

import pytest

from evalgate import errors
from evalgate.errors import Place
from evalgate.wings.google_cloud.eval_config import parse_eval_config

FUNCTION = "  custom_function: |\n    def evaluate(instance):\n        return {'score': 1}\n"


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("metrics_to_run:\n- a\n", "unknown-criterion", 2, "neither in `custom_metrics`"),
        ("metrics_to_run:\n- safty\n", "unknown-criterion", 2, "`safty`"),
        # half-written entries
        ("metrics_to_run: [b]\ncustom_metrics:\n- name: b\n", "unknown-criterion", 3, "has no"),
        ("metrics_to_run: [b]\ncustom_metrics:\n- nam: b\n", "missing-key", 3, "no `name`"),
        ("metrics_to_run: [b]\ncustom_metrics:\n- b\n", "wrong-type", 3, "an object"),
        ("custom_metrics: x\n", "wrong-type", 1, "a list of metrics"),
        ("custom_metrics: 3\n", "wrong-type", 1, "a list of metrics"),
        ("custom_metrics: {m: x}\n", "wrong-type", 1, "a list of metrics"),
        ("custom_metrics: {3: {description: x}}\n", "missing-key", 1, "no `name`"),
        ("metrics_to_run: 3\n", "wrong-type", 1, "a list of names"),
        ("metrics_to_run:\n- 3\n", "wrong-type", 2, "the name of a metric"),
        (
            "metrics_to_run: [b]\ncustom_metrics:\n- name: b\n  custom_function: |\n    x = 1\n",
            "bad-metric",
            4,
            "no function `evaluate",
        ),
        (
            "metrics_to_run: [b]\ncustom_metrics:\n- name: b\n  custom_function_file: gone.py\n",
            "no-metric-file",
            4,
            "tests/gone.py cannot be read",
        ),
        (
            f"metrics_to_run: [b]\ncustom_metrics:\n- name: b\n{FUNCTION}  prompt_template: x\n",
            "wrong-value",
            3,
            "one is expected",
        ),
        (
            f"metrics_to_run: [b]\ncustom_metrics:\n- name: b\n  threshold: high\n{FUNCTION}",
            "wrong-type",
            4,
            "a number",
        ),
        # it would decide nothing, and pass
        (
            f"metrics_to_run: [b]\ncustom_metrics:\n- name: b\n  treshold: 4\n{FUNCTION}",
            "unknown-key",
            4,
            "`treshold` is not a key",
        ),
        # no config at all
        ("- a\n", "not-a-config", 1, "a list"),
        ("", "not-a-config", 1, "null"),
        ("a: [1\nb: 2\n", "yaml-syntax", 2, "not valid YAML"),
        # a block that is indented otherwise than its neighbors, as a public project has it
        ("c:\n  - name: b\n     prompt_template: x\n", "yaml-syntax", 3, "not valid YAML"),
        ("a: 'x\n", "yaml-syntax", 2, "not valid YAML"),
        ("a: \x00", "yaml-syntax", None, "not valid YAML"),
        ("a: !!python/object:os.system x", "yaml-syntax", 1, "not valid YAML"),
        ("a: 2024-99-99", "yaml-syntax", None, "not valid YAML"),
        ("[" * 1000, "yaml-too-deep", 1, "deep"),
        ("a: " + "x" * 1_000_001, "file-too-large", 1, "characters"),
    ],
)
def test_what_is_said(text, code, line, words):
    reading = parse_eval_config(text, file="tests/eval_config.yaml", read=_absent)
    problem = next(problem for problem in reading.problems if problem.code == code)
    assert (problem.place.line if problem.place else None) == line
    assert words in problem.message
    assert reading.criteria == ()


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ("  prompt_template: 'Grade {respnse}: {mood}'\n", "respnse"),
        (FUNCTION.replace("score", "scre"), "scre"),
        ("  prompt_template: 'Grade {response} for {mood} by {reference}'\n", ""),
    ],
)
def test_a_misspelled_key_is_said_before_a_run(body, key):
    text = f"metrics_to_run: [b]\ncustom_metrics:\n- name: b\n{body}"
    reading = parse_eval_config(text, file="tests/eval_config.yaml", read=_absent)
    assert [problem.message for problem in reading.problems] == (
        [f"`b` has the key `{key}`"] if key else []
    )
    assert len(reading.criteria) == 1


def _absent(path):
    return errors.error("unreadable", "the file does not exist", Place(file=path))


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        # (name in ADK's table, code, the options that matter)
        (FUNCTION, ("", "e/eval_config.yaml:m", {"takes": "instance"})),
        ("  custom_function_file: m.py\n", ("", "e/m.py", {"file": "e/m.py"})),
        ("  custom_function: app.metrics.score\n", ("", "app.metrics.score", {})),
        (
            "  prompt_template: Grade {response}.\n",
            ("agents_cli_prompt_metric", None, {"prompt_template": "Grade {response}."}),
        ),
    ],
)
def test_a_metric_becomes_a_criterion(metric, expected):
    text = f"metrics_to_run: [m]\ncustom_metrics:\n- name: m\n  threshold: 3\n{metric}"
    reading = parse_eval_config(
        text, file="e/eval_config.yaml", read=lambda _: b"def evaluate(instance): return 1"
    )
    assert reading.problems == ()
    (use,) = reading.criteria
    assert (use.name, use.threshold, use.metric, use.code) == ("m", 3.0, *expected[:2])
    assert expected[2].items() <= use.options.items()


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("safety", "safety_v1", {}),
        (
            "final_response_quality",
            "agents_cli_service_metric",
            {"metric": "final_response_quality_v1"},
        ),
        ("general_quality_v2", "agents_cli_service_metric", {"metric": "general_quality_v2"}),
    ],
)
def test_built_in_metrics(name, metric, options):
    (use,) = parse_eval_config(f"metrics_to_run: [{name}]", file="e.yaml").criteria
    assert (use.name, use.metric, dict(use.options)) == (name, metric, options)
    assert use.is_compared


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # a metric in words: a list, with a threshold, and a mapping
        ("metrics:\n- name: m\n  description: Be kind.\n", "Be kind."),
        ("criteria:\n- id: m\n  metric: llm_judge\n  rubric: Be kind.\n", "Be kind."),
        ("metrics:\n  m:\n    description: Be kind.\n    criteria: {1: bad}\n", '"1": "bad"'),
        ("custom_metrics:\n- name: m\n  description: Be kind.\n", "Be kind."),
        # under metrics, the name of a built-in metric is only a name
        ("metrics:\n- name: safety\n  description: Be kind.\n", "Be kind."),
        # prompts under other names
        ("metrics:\n- name: m\n  type: llm_judge\n  prompt: Grade {response}.\n", "Grade {res"),
        (
            'custom_metrics: {"m": {"llmAsJudgeConfig": {"promptTemplate": "Grade it."}}}',
            "Grade it",
        ),
    ],
)
def test_a_metric_in_words_is_judged_by_them(text, shown):
    reading = parse_eval_config(text, file="e.yaml")
    (use,) = reading.criteria
    assert use.metric == "agents_cli_prompt_metric"
    assert shown in use.options["prompt_template"]
    assert "metric-in-words" in [problem.code for problem in reading.problems]


def test_a_metric_in_words_keeps_its_threshold():
    text = "metrics:\n- name: m\n  description: Be kind.\n  threshold: 0.9\n"
    (use,) = parse_eval_config(text, file="e.yaml").criteria
    assert (use.threshold, "threshold" in use.options["prompt_template"]) == (0.9, False)


def test_without_a_list_all_custom_metrics_run():
    reading = parse_eval_config(f"custom_metrics:\n- name: m\n{FUNCTION}", file="e.yaml")
    assert [use.name for use in reading.criteria] == ["m"]
    assert [problem.code for problem in reading.problems] == ["no-metrics-to-run"]


def test_the_json_form():
    reading = parse_eval_config('{"metrics_to_run": ["safety"]}', file="e.json")
    assert [use.name for use in reading.criteria] == ["safety"]
    assert parse_eval_config('{"a": ', file="e.json").problems[0].code == "yaml-syntax"
