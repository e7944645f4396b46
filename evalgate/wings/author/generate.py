"""New evaluation sets with scenarios that a model writes for an agent."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from evalgate import errors
from evalgate.agents import opening, rule_use
from evalgate.agents.base import AgentFailed
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria.judges import defaults_of
from evalgate.discovery import candidates, discover, dotenv
from evalgate.errors import ConfigError, UnavailableError
from evalgate.formats import adk_shapes, fingerprints, rewrite
from evalgate.github import forks
from evalgate.judges import panel as judges_panel, prompting
from evalgate.judges.base import ADK_MODEL, JudgeFailed, JudgePanel
from evalgate.judges.clients import Clients
from evalgate.judges.prompting import Question
from evalgate.model import (
    AgentDetails,
    AgentUse,
    Case,
    ConversationScenario,
    Invocation,
    Persona,
    Suite,
)
from evalgate.simulation import personas
from evalgate.text import words
from evalgate.values import digest_of, json_text

VERSION = "1"
_MAX_CHARACTERS = 4_000  # of a prompt or plan
USAGE_NAME = "generate"
"""The name of this use of the judge, in place of a criterion's."""
QUESTION = "Hello! What can you do for me, and what do you need to know for it?"
MAX_TRIES = 3
DEFAULT_TEST_CONFIG = {
    "criteria": {
        "per_turn_user_simulator_quality_v1": {"threshold": 0.8},
        "multi_turn_task_success_v1": {"threshold": 1.0, "judge": "llm"},
    }
}
"""The test_config.json for a folder without one. Its criteria need no reference."""

_RULES = """\
You design tests for an AI agent. Each test is a conversation scenario: a simulated user follows it and talks to the
agent. You write scenarios that a thoughtful tester would write after reading what the agent is told and given.

- starting_prompt: the user's first message, as a person would write it. It does not tell everything at once.
- conversation_plan: for whoever plays the user. What the user wants, in order; every fact that the user knows and may
  be asked for (names, dates, numbers), written out; what the user does when things go another way; when it is content.
  Nobody may have to make anything up. The agent never sees the plan.
- user_persona: EXPERT knows the field and wants it quick, NOVICE needs guidance and never corrects, EVALUATOR tries the
  agent out.
- A scenario fits what this agent can do. Between them, the scenarios use different tools and rules of its instructions,
  ordinary wishes first, then what is likely to go wrong: missing details, a change of mind, a wish that the agent must
  decline by its own rules, two wishes that depend on each other.
- No two scenarios test the same, and none tests what one of scenarios_that_there_are does.
- The piece wishes, where it holds something, says what the developer wants tested: of all pieces, this one is followed,
  as far as it speaks of the scenarios."""

_REPLY = """\
Reply with one JSON object and nothing else:
{"scenarios": [{"starting_prompt": "...", "conversation_plan": "...", "user_persona": "NOVICE"}]}"""

_SCENARIO = prompting.object_schema(
    {
        "starting_prompt": {"type": "string"},
        "conversation_plan": {"type": "string"},
        "user_persona": {"type": "string", "enum": list(personas.BUILT_IN)},
    }
)
_SCHEMA = prompting.object_schema({"scenarios": {"type": "array", "items": _SCENARIO}})


def render_question(
    *,
    agents: Sequence[AgentDetails],
    introduction: str,
    instruction: str,
    count: int,
    existing: Sequence[ConversationScenario] = (),
) -> Question:
    """The question for `count` more scenarios.

    `existing`: the scenarios so far. `introduction`: the agent's description of itself.
    `instruction`: the developer's wishes; may be empty."""
    descriptions = [
        {
            "name": agent.name,
            "instructions": agent.instructions,
            "tools": prompting.tools_of_agent(agent),
        }
        for agent in agents
    ]
    return prompting.build_question(
        rules=_RULES,
        reply=_REPLY,
        pieces={
            "agents": prompting.as_json(descriptions) if descriptions else "",
            "what_the_agent_says_of_itself": introduction,
            "wishes": instruction,
            "scenarios_that_there_are": "\n".join(
                scenario.starting_prompt for scenario in existing
            ),
        },
        task=f"Write {count} new scenario{'s' if count != 1 else ''} for this agent.",
        version=VERSION,
        schema=_SCHEMA,
    )


def parse(text: str) -> list[ConversationScenario]:
    """The scenarios in a reply. An entry that lacks a prompt or a plan, or is far too long, is
    skipped."""
    scenarios = []
    lists = (document.get("scenarios", [document]) for document in prompting.json_objects(text))
    entries = (entry for listed in lists if isinstance(listed, list) for entry in listed)
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        values = (entry.get(key) for key in ("starting_prompt", "conversation_plan"))
        texts = [value.strip() if isinstance(value, str) else "" for value in values]
        if all(0 < len(text) <= _MAX_CHARACTERS for text in texts):
            prompt, plan = texts
            persona_id = str(entry.get("user_persona") or "").strip().upper()
            persona = Persona(persona_id=persona_id) if persona_id in personas.BUILT_IN else None
            scenarios.append(
                ConversationScenario(
                    starting_prompt=prompt, conversation_plan=plan, persona=persona
                )
            )
    return scenarios


def generate(
    settings: Settings, context: Context, *, count: int, instruction: str, model: str, into: str
) -> tuple[list[Path], int]:
    """Generate `count` scenarios as an evaluation set, from the agent's description of itself.

    `instruction`: wishes. `model`: the model that writes; empty: the simulated users' model.
    `into`: a folder, relative to the root. Returns the files, the set first, and the number of
    scenarios in it.

    Raises ConfigError if the agent is ambiguous or the file exists already, UnavailableError if the
    agent or the model does not answer."""
    forks.refuse_change(context.environ, "evalgate generate")
    model = (
        model or settings.gate_file.simulator.model or settings.gate_file.judge.model or ADK_MODEL
    )
    suite = candidates.suite_of(_agent(settings), settings)
    # equal requests get the same name, so that nothing is generated twice by mistake
    request_key = [suite.agent.key, count, instruction, model, settings.seed]
    name = f"scenarios_{fingerprints.digest(request_key)[:8]}"
    path = settings.root / into / f"{name}.evalset.json"
    if path.exists():
        raise ConfigError(
            f"{path.relative_to(settings.root)} exists already",
            hint="Review it, or change --instruction, --count or --seed.",
        )
    defaults = defaults_of(settings)
    environ = dotenv.of_judges(settings, [suite.agent], context.environ).environ
    clients = Clients(defaults=defaults, environment=environ)
    if reasons := clients.missing([model]):
        message = f"the model `{model}` that writes scenarios: {reasons[model]}"
        raise ConfigError.collected([errors.error("simulator-credentials", message)])
    judge_keys = clients.key_names([model])
    introduction = _ask_agent(suite, settings, context, judge_keys=judge_keys)
    panel = judges_panel.open_panel(
        [model],
        defaults=defaults,
        environment=environ,
        cache=context.cache / "verdicts",
        warn=context.say,
    )
    try:
        scenarios = _scenarios(
            panel,
            introduction,
            count=count,
            instruction=instruction,
            model=model,
            seed=settings.seed,
        )
    finally:
        panel.close()
    rewrite.create(path, render_eval_set(name, scenarios), root=settings.root)
    files = [path]
    config = path.with_name("test_config.json")
    if not config.exists():
        rewrite.create(config, json_text(DEFAULT_TEST_CONFIG), root=settings.root)
        files.append(config)
    return files, len(scenarios)


def render_eval_set(name: str, scenarios: list[ConversationScenario]) -> str:
    """An evaluation set in ADK's format."""
    cases = (Case(case_id=_case_id(scenario), scenario=scenario) for scenario in scenarios)
    eval_set_fields = {
        "eval_set_id": name,
        "name": name,
        "description": "Generated by evalgate; review before use.",
        "eval_cases": [adk_shapes.case_json(case) for case in cases],
    }
    return json_text(eval_set_fields)


def _agent(settings: Settings) -> AgentUse:
    """The only agent. Raises ConfigError if there is none, or more than one."""
    rules = settings.gate_file.agents
    if len(rules) == 1:
        return rule_use(rules[0])
    suites, _ = discover.suites_of_all(settings)
    uses = {suite.agent.key: suite.agent for suite in suites}
    if len(uses) != 1:
        raise ConfigError(
            f"{len(uses)} agents found; choose one" if uses else "no agent found",
            hint="Use --agent adk:FOLDER (or python:, command:, http:).",
        )
    return next(iter(uses.values()))


def _ask_agent(
    suite: Suite, settings: Settings, context: Context, *, judge_keys: Collection[str]
) -> Invocation:
    """One turn of the agent, with its description of itself. Some drivers also report instructions
    and tools."""
    try:
        _, turn = opening.ask_once(suite, QUESTION, settings, context, judge_keys=judge_keys)
    except AgentFailed as failed:
        raise UnavailableError(
            f"the agent could not describe what it can do: {failed.failure.message}",
            hint="evalgate asks the agent one question before it generates scenarios.",
        ) from failed
    assert turn is not None  # there is a question
    return turn


def _scenarios(
    panel: JudgePanel,
    introduction: Invocation,
    *,
    count: int,
    instruction: str,
    model: str,
    seed: int,
) -> list[ConversationScenario]:
    """At most `count` scenarios, within a few tries. Raises UnavailableError if there are none."""
    scenarios: dict[str, ConversationScenario] = {}
    for try_number in range(MAX_TRIES):
        question = render_question(
            agents=introduction.agents,
            introduction=prompting.answer_of(introduction),
            instruction=instruction,
            count=count - len(scenarios),
            existing=list(scenarios.values()),
        )
        # the cache has one reply per sample
        sample = seed * MAX_TRIES + try_number
        request = question.request(model, None, criterion=USAGE_NAME, sample=sample)
        try:
            reply = panel.ask(request)
        except JudgeFailed as failed:
            if scenarios:
                break
            raise UnavailableError(
                f"`{model}` wrote no scenario: {failed.failure.message}"
            ) from failed
        for scenario in parse(reply.text):
            if len(scenarios) < count:
                scenarios.setdefault(_case_id(scenario), scenario)
        if len(scenarios) >= count:
            break
    if not scenarios:
        raise UnavailableError(
            f"`{model}` wrote no valid scenario in {words.counted(MAX_TRIES, 'try', 'tries')}"
        )
    return list(scenarios.values())


def _case_id(scenario: ConversationScenario) -> str:
    """The id of a scenario, from its content, as in ADK."""
    text = json.dumps(adk_shapes.scenario_json(scenario), sort_keys=True)
    return f"scenario_{digest_of(text, 8)}"
