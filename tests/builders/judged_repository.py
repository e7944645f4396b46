"""A repository whose ADK agent and whose judges all ask Gemini, each by a model name of its own, to
tell them apart."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from builders import forked_command

AGENT_MODEL = "gemini-2.5-pro"
MATCH_MODEL = "gemini-2.5-flash"
RUBRIC_MODEL = "gemini-2.5-flash-lite"
HALLUCINATION_MODEL = "gemini-2.0-flash"
SAFETY_MODEL = "gemini-2.0-flash-lite"
JUDGES = (MATCH_MODEL, RUBRIC_MODEL, HALLUCINATION_MODEL, SAFETY_MODEL)

CITIES = ("Oslo", "Bergen", "Vardø")
ANSWER = "It is sunny, 21 degrees."
VALID = json.dumps({"rationale": "The same weather.", "verdict": "valid"})
SAFE = json.dumps({"rationale": "Weather harms nobody.", "verdict": "safe"})
HOLDS = json.dumps(
    {"verdicts": [{"id": "P1", "evidence": "", "rationale": "It says so.", "verdict": "yes"}]}
)
BORNE_OUT = json.dumps(
    {
        "text": f"<sentence>{ANSWER}</sentence>",
        "verdicts": [
            {
                "id": "S1",
                "rationale": "The tool said so.",
                "supporting_excerpt": "21",
                "label": "supported",
            }
        ],
    }
)
"""An answer to both questions of hallucinations_v1: which sentences there are, and what each rests
on."""
SAID = {MATCH_MODEL: VALID, RUBRIC_MODEL: HOLDS, HALLUCINATION_MODEL: BORNE_OUT, SAFETY_MODEL: SAFE}

AGENT = f'''
"""Says what the weather is like. Its client tries twice, quickly, so that a test need not wait for long."""

from google.adk.agents import Agent
from google.genai import types


def look_up_weather(city: str) -> dict:
    """The weather in a city, now."""
    return {{"city": city, "sky": "sunny", "celsius": 21}}


root_agent = Agent(
    name="weather_desk",
    model="{AGENT_MODEL}",
    instruction="Say what the weather is like; always look it up.",
    tools=[look_up_weather],
    generate_content_config=types.GenerateContentConfig(
        http_options=types.HttpOptions(
            retry_options=types.HttpRetryOptions(
                attempts=2, initial_delay=0.05, max_delay=0.1, http_status_codes=[429, 500, 503]
            )
        )
    ),
)
'''


def _asks(model: str, samples: int) -> dict[str, Any]:
    return {"judge_model_options": {"judge_model": model, "num_samples": samples}}


def criteria(samples: int = 5) -> dict[str, Any]:
    """ADK's test_config.json with four judged criteria and one that nobody judges."""
    rubric = {
        "rubric_id": "says_degrees",
        "rubric_content": {"text_property": "The answer says how warm it is."},
    }
    return {
        "tool_trajectory_avg_score": 1.0,
        "final_response_match_v2": {"threshold": 1.0, **_asks(MATCH_MODEL, samples)},
        "rubric_based_final_response_quality_v1": {
            "threshold": 1.0,
            "rubrics": [rubric],
            **_asks(RUBRIC_MODEL, samples),
        },
        "hallucinations_v1": {"threshold": 1.0, **_asks(HALLUCINATION_MODEL, 1)},
        "safety_v1": {"threshold": 1.0, "judge": "llm", **_asks(SAFETY_MODEL, samples)},
    }


def write(root: Path, *, python: str, samples: int = 5, judge: str = "{}") -> Path:
    """The repository; `python`: an interpreter with google-adk; `judge`: what evalgate.yml says of
    judges."""
    package = root / "weather_desk"
    package.mkdir()
    (package / "__init__.py").write_text("from . import agent\n", encoding="utf-8")
    (package / "agent.py").write_text(AGENT, encoding="utf-8")
    (root / "evalgate.yml").write_text(
        f"python: {python}\njudge: {judge}\nthreshold: all\n", encoding="utf-8"
    )
    (package / "test_config.json").write_text(
        json.dumps({"criteria": criteria(samples)}), encoding="utf-8"
    )
    cases = [
        {
            "eval_id": f"weather_in_{city.lower()}",
            "conversation": [
                {
                    "user_content": {
                        "role": "user",
                        "parts": [{"text": f"What is the weather like in {city}?"}],
                    },
                    "final_response": {"role": "model", "parts": [{"text": "Sunny, 21 degrees."}]},
                    "intermediate_data": {
                        "tool_uses": [{"name": "look_up_weather", "args": {"city": city}}]
                    },
                }
            ],
        }
        for city in CITIES
    ]
    sets = json.dumps({"eval_set_id": "weather", "eval_cases": cases}, ensure_ascii=False)
    (package / "weather.evalset.json").write_text(sets, encoding="utf-8")
    return root


def gate(root: Path, base_url: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """`evalgate run` as a child process: exit code, all that it said, results.json. Only loopback
    can be reached."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "PYTHONPATH")
        if name in os.environ
    }
    nowhere = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
    )
    environment = {
        **kept,
        **nowhere,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "GOOGLE_API_KEY": "a-key-of-nobody",
        "GOOGLE_GEMINI_BASE_URL": base_url,
    }
    command = ["run", "--cache", str(root / "cache")]
    command += [
        "--env",
        "GOOGLE_API_KEY",
        "--env",
        "GOOGLE_*",
        "--env",
        "*_PROXY",
        "--env",
        "*_proxy",
        *arguments,
    ]
    done = forked_command.run(command, cwd=root, env=environment, timeout=300)
    written = root / "evalgate-report" / "results.json"
    results = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    return done.returncode, done.stdout + done.stderr, results
