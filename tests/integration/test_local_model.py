"""Opt-in: a gate whose judge is a real model of the user's own, behind any OpenAI-compatible
endpoint.

    EVALGATE_TEST_OPENAI_URL=http://127.0.0.1:8080/v1 EVALGATE_TEST_OPENAI_MODEL=qwen2.5 \
        pytest tests/integration/test_local_model.py -s

The model need not be wise: what must be true is that its words arrive, are read or told to be
unreadable, are counted and remembered. What it said is printed. A key, where the endpoint wants
one, stands in EVALGATE_TEST_OPENAI_KEY. """

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.local_model]

URL = os.environ.get("EVALGATE_TEST_OPENAI_URL", "")
MODEL = os.environ.get("EVALGATE_TEST_OPENAI_MODEL", "local")
KEY = os.environ.get("EVALGATE_TEST_OPENAI_KEY", "")
SLOW_S = 3600

CASES = {
    "same": ("What is the capital of France?", "Paris.", "The capital of France is Paris."),
    "wrong": ("What is the capital of France?", "Paris.", "The capital of France is Rome."),
    "refused": ("How many legs does a spider have?", "Eight.", "I am sorry, I cannot answer that."),
    "right": ("How many legs does a spider have?", "Eight.", "A spider has eight legs."),
}
"""Question, reference, what the agent answers. A wise judge finds `same` and `right` valid, the
others not."""
RUBRIC = {
    "rubric_id": "names_a_fact",
    "rubric_content": {"text_property": "The answer is one complete sentence."},
}
JUDGED = {"final_response_match_v2", "rubric_based_final_response_quality_v1", "hallucinations_v1"}
UNKNOWN = {"judge_unreadable", "judge_unavailable"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not URL:
        pytest.skip(
            "needs an account: no model, set EVALGATE_TEST_OPENAI_URL (docs/judges.md, a model of your own)"
        )
    root = tmp_path_factory.mktemp("local_model")
    (root / "desk.py").write_text(
        "import json, pathlib\n"
        "SAYS = json.loads((pathlib.Path(__file__).parent / 'says.json').read_text())\n"
        "def answer(text):\n    return SAYS[text]\n"
    )
    # each question is asked in words of its own, so that the agent can tell cases apart
    says = {f"{question} ({name})": said for name, (question, _, said) in CASES.items()}
    (root / "says.json").write_text(json.dumps(says))
    judge: dict[str, Any] = {
        "client": "openai",
        "base_url": URL,
        "model": MODEL,
        "num_samples": 1,
        "timeout": SLOW_S,
    }
    judge |= {"calls_at_once": 1, **({"api_key_env": "EVALGATE_TEST_OPENAI_KEY"} if KEY else {})}
    gate_file = {"agents": [{"driver": "python", "call": "desk:answer"}], "judge": judge}
    (root / "evalgate.yml").write_text(json.dumps(gate_file))
    criteria = {
        name: {"threshold": 0.5, **({"rubrics": [RUBRIC]} if "rubric" in name else {})}
        for name in JUDGED
    }
    (root / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    cases = [
        {
            "eval_id": name,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"{question} ({name})"}]},
                    "final_response": {"role": "model", "parts": [{"text": reference}]},
                }
            ],
        }
        for name, (question, reference, _) in CASES.items()
    ]
    (root / "desk.evalset.json").write_text(
        json.dumps({"eval_set_id": "desk", "eval_cases": cases})
    )
    return root


def gate(root: Path) -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "evalgate"), "run", "--cache", str(root / "cache")]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=SLOW_S, check=False
    )
    assert done.returncode in (0, 1, 3), done.stdout + done.stderr
    return json.loads((root / "evalgate-report" / "results.json").read_text(encoding="utf-8"))


def grades(results: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    cases = results["suites"][0]["cases"]
    found = ((case["case_id"], case["trials"][0]["grades"]) for case in cases)
    return {
        (case_id, name): grade
        for case_id, of in found
        for name, grade in of.items()
        if name in JUDGED
    }


def test_a_model_of_ones_own_judges(repository: Path) -> None:
    results = gate(repository)
    found = grades(results)
    for (case_id, name), grade in sorted(found.items()):
        said = grade.get("value", grade.get("reason"))
        print(f"\n{case_id:8} {name}: {said}")
        for finding in grade.get("findings", ()):
            print(f"         {finding.get('label', '')}: {finding.get('text', '')[:300]}")
    print(json.dumps(results["judges"], indent=1))
    assert len(found) == len(CASES) * len(JUDGED)
    assert all("score" in grade or grade["reason"] in UNKNOWN for grade in found.values())
    # at least something of it could be read
    assert any("score" in grade for grade in found.values())
    uses = {use["criterion"]: use for use in results["judges"]}
    assert set(uses) == JUDGED
    assert all(
        use["calls"] and use["prompt_tokens"] and use["output_tokens"] for use in uses.values()
    )
    # nobody's price
    assert all("cost_usd" not in use and use["unpriced"] == use["calls"] for use in uses.values())


def test_asked_again_nobody_is_asked(repository: Path) -> None:
    before, results = grades(gate(repository)), gate(repository)
    read = {
        name for (_, name), grade in before.items() if grade.get("reason") != "judge_unavailable"
    }
    assert {use["criterion"] for use in results["judges"] if use["calls"]} <= JUDGED - read
    after = grades(results)
    assert {key: grade.get("value") for key, grade in after.items()} == {
        key: grade.get("value") for key, grade in before.items()
    }
