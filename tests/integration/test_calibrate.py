"""`evalgate calibrate`: labels beside a real client's verdicts, the file that runs read, and the
gate that needs it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import forked_command, gemini_double
from builders.gemini_double import GeminiDouble

pytestmark = pytest.mark.integration

SCHEMA = Path(__file__).parents[2] / "docs" / "calibration.schema.json"
MATCH = "final_response_match_v2"
AGENT = "def answer(text):\n    return text.replace('question', 'an answer to')\n"
KEY = {"MY_JUDGE_KEY": "a-secret-judge-key"}


class Gemini(GeminiDouble):
    """Says `invalid` to a text with the word `wrong` in it, and to the words in `mistaken`; else
    `valid`."""

    mistaken: tuple[str, ...] = ()

    def reply(self, body: dict[str, Any]) -> str:
        prompt = body["contents"][0]["parts"][0]["text"]
        said = prompt[prompt.index("agent_answer") :]
        invalid = any(re.search(rf"\b{word}\b", said) for word in ("wrong", *self.mistaken))
        return json.dumps(
            {"rationale": "As the words say.", "verdict": "invalid" if invalid else "valid"}
        )


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with gemini_double.served(Gemini()) as server:
        yield server


def repository(root: Path, judge: str) -> Path:
    (root / "desk.py").write_text(AGENT)
    (root / "evalgate.yml").write_text(
        f"agents: [{{driver: python, call: 'desk:answer'}}]\njudge: {{{judge}}}\n"
    )
    criteria = {
        MATCH: {"threshold": 0.5, "judge_model_options": {"judge_model": "gemini-2.5-flash"}}
    }
    (root / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    cases = [
        {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"question {number}"}]},
                    "final_response": {"role": "model", "parts": [{"text": f"answer {number}"}]},
                }
            ],
        }
        for number in range(4)
    ]
    (root / "desk.evalset.json").write_text(
        json.dumps({"eval_set_id": "desk", "eval_cases": cases})
    )
    return root


def at(server: Gemini, more: str = "") -> str:
    return f"base_url: '{server.url}', api_key_env: MY_JUDGE_KEY{more}"


def label(number: int, word: str, answer: str) -> dict[str, Any]:
    texts = {"user": f"how much is {number}?", "answer": answer, "reference": f"{number}"}
    return {"criterion": MATCH, "label": word, **texts}


GOOD = [label(number, "valid", f"it is {number}") for number in range(20)]
BAD = [label(number, "no", f"it is wrong {number}") for number in range(20, 40)]


def write(root: Path, lines: list[dict[str, Any]], name: str = "labels.jsonl") -> None:
    (root / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def evalgate(root: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOOGLE_", "GEMINI_"))
    }
    command = [arguments[0], "--cache", str(root / "cache"), *arguments[1:]]
    done = forked_command.run(command, cwd=root, env={**inherited, **environment}, timeout=120)
    return done.returncode, done.stdout + done.stderr


def calibration(root: Path) -> dict[str, Any]:
    return json.loads((root / "calibration.json").read_text())


def test_labels_become_a_calibration_and_asking_again_costs_nothing(
    tmp_path: Path, gemini: Gemini
) -> None:
    root = repository(tmp_path, at(gemini))
    gemini.mistaken = ("3", "7")  # says invalid to two good answers
    write(root, [*GOOD, *BAD])
    code, said = evalgate(root, "calibrate", "labels.jsonl", **KEY)
    assert code == 0, said
    assert gemini.asked == 40 * 3  # five samples that agree: three calls
    written = calibration(root)
    jsonschema.validate(written, json.loads(SCHEMA.read_text()))
    (found,) = written["criteria"]
    assert found["judge"] == {
        "model": "gemini-2.5-flash", "prompt_version": "2", "num_samples": 5, "config": {},
    }  # fmt: skip
    assert found["matrix"] == {
        "true_positive": 18,
        "false_negative": 2,
        "false_positive": 0,
        "true_negative": 20,
    }
    assert found["kappa"]["value"] == 0.9
    assert {example["line"] for example in found["examples"]} == {4, 8}
    assert "0.90 (0." in said
    assert "As the words say." in said
    code, said = evalgate(root, "calibrate", "labels.jsonl", "--fail-under-kappa", "0.95", **KEY)
    assert (code, gemini.asked) == (1, 120)
    assert "kappa is 0.90; at least 0.95 is required" in said
    assert b"a-secret-judge-key" not in b"".join(
        path.read_bytes() for path in root.rglob("*") if path.is_file()
    )


def test_the_gate_waits_for_a_calibration_of_its_own_judge(tmp_path: Path, gemini: Gemini) -> None:
    more = ", num_samples: 1, calibration: calibration.json, min_kappa: 0.6"
    root = repository(tmp_path, at(gemini, more))
    code, said = evalgate(root, "run", **KEY)
    assert code == 2, said
    assert "calibration-missing" in said
    assert "evalgate calibrate" in said
    assert (gemini.asked, (root / "evalgate-report").exists()) == (0, False)  # nothing was spent

    gemini.mistaken = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13")
    write(root, [*GOOD, *BAD])
    assert evalgate(root, "calibrate", "labels.jsonl", **KEY)[0] == 0
    code, said = evalgate(root, "run", **KEY)
    assert code == 2
    assert "calibration-below-minimum" in said
    assert "kappa of 0.35" in said

    gemini.mistaken = ("3",)
    for path in (root / "cache").rglob("*.json"):
        path.unlink()
    assert evalgate(root, "calibrate", "labels.jsonl", **KEY)[0] == 0
    code, said = evalgate(root, "run", **KEY)
    assert code == 1, said  # measured now: one of four answers is judged invalid
    assert "1 failed" in said
    results = json.loads((root / "evalgate-report" / "results.json").read_text())
    (criterion,) = [each for each in results["suites"][0]["criteria"] if each["name"] == MATCH]
    assert criterion["calibration"]["labels"] == 40

    repository(root, at(gemini, more + ", model: gemini-3-pro"))
    code, said = evalgate(root, "run", **KEY)
    assert code == 2
    assert "calibration-of-another-judge" in said
    assert "gemini-3-pro" in said
    # nobody judges: no calibration is needed
    assert evalgate(root, "run", "--skip-judged", **KEY)[0] == 3


def test_labels_of_a_run_are_drafted_blind_and_cost_no_call(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, at(gemini))
    gemini.mistaken = ("3",)
    assert evalgate(root, "run", **KEY)[0] == 1
    asked = gemini.asked
    code, said = evalgate(root, "calibrate", "--draft", "labels.jsonl")
    assert code == 0, said
    lines = [json.loads(line) for line in (root / "labels.jsonl").read_text().splitlines()]
    assert sorted(line["case"] for line in lines) == [f"case_{number}" for number in range(4)]
    # what the judge said would be agreed with
    assert "invalid" not in (root / "labels.jsonl").read_text()
    assert evalgate(root, "calibrate", "labels.jsonl")[0] == 4  # nothing is labelled yet
    assert evalgate(root, "calibrate", "--draft", "labels.jsonl")[0] == 2  # never over labels

    for line in lines:
        line["label"] = "invalid" if line["case"] == "case_0" else "valid"
    write(root, lines)
    code, said = evalgate(root, "calibrate", "labels.jsonl", **KEY)
    assert code == 0, said
    assert gemini.asked == asked  # the same questions: all of them in the cache
    (criterion,) = calibration(root)["criteria"]
    assert criterion["matrix"] == {
        "true_positive": 2, "false_negative": 1, "false_positive": 1, "true_negative": 0,
    }  # fmt: skip
    assert criterion.get("undecided", 0) == 0


def test_a_recording_calibrates_without_an_account(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, at(gemini, ", record: verdicts.jsonl"))
    write(root, [*GOOD, *BAD])
    assert evalgate(root, "calibrate", "labels.jsonl", **KEY)[0] == 0
    asked, first = gemini.asked, calibration(root)["criteria"]
    repository(root, "replay: verdicts.jsonl, calibration: calibration.json, min_kappa: 0.6")
    code, said = evalgate(root, "calibrate", "labels.jsonl", "--cache", str(root / "another"))
    assert code == 0, said
    assert (calibration(root)["criteria"], gemini.asked) == (first, asked)
    write(root, [*GOOD, *BAD, label(50, "yes", "never recorded")])
    code, said = evalgate(root, "calibrate", "labels.jsonl", "--cache", str(root / "another"))
    assert code == 0
    assert calibration(root)["criteria"][0]["undecided"] == 1  # unknown is no disagreement
    assert "1 of 41 labels undecided" in said


def test_an_outage_is_no_calibration(tmp_path: Path) -> None:
    root = repository(tmp_path, "replay: nothing.jsonl")
    (root / "nothing.jsonl").write_text("")
    write(root, GOOD)
    code, said = evalgate(root, "calibrate", "labels.jsonl")
    assert code == 3, said
    assert "decided none of 20 labels" in said
    assert not (root / "calibration.json").exists()


def test_every_bad_line_is_told_at_once_and_nobody_is_asked(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, at(gemini))
    lines = [
        label(1, "vallid", "it is 1"),
        {**label(2, "valid", "it is 2"), "criterion": "final_response_match"},
        {"criterion": MATCH, "label": "valid"},
        label(3, "valid", "it is 3"),
        label(3, "invalid", "it is 3"),
        {"criterion": MATCH, "label": "yes", "suite": "desk.evalset.json", "case": "case_9"},
    ]
    write(root, lines)
    with (root / "labels.jsonl").open("a") as file:
        file.write("{not json\n")
    code, said = evalgate(root, "calibrate", "labels.jsonl", **KEY)
    assert (code, gemini.asked) == (2, 0)
    for line, words in (
        (1, "Did you mean `valid`?"),
        (2, "Did you mean `final_response_match_v2`?"),
        (3, "does not identify what was judged"),
        (5, "contradicts line 4"),
        (6, "no results.json"),
        (7, "not JSON"),
    ):
        assert re.search(rf"labels\.jsonl:{line}\b.*", said), said
        assert words in said
