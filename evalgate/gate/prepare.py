"""The preparation of a run: the project with all checks that cost nothing, and a lower bound of its
cost."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from evalgate import agents, errors
from evalgate.comparison.purse import MAX_PAIRS, MAX_RUNS, PAIRS_TO_CONFIRM, RUNS_TO_CONFIRM
from evalgate.config import variables
from evalgate.config.context import Audience, Context, Opening, Trigger
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import project
from evalgate.discovery.dotenv import CREDENTIALS, JudgeEnvironment
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, Place, Problem
from evalgate.formats import FORMATS
from evalgate.github import events, forks
from evalgate.judges import models
from evalgate.model import Case, CriterionUse, Need, Policy, Suite, ThresholdRule, ToolCall, Usage
from evalgate.runner.trials import Task
from evalgate.system import git, process
from evalgate.text import words
from evalgate.values import Environ, Log, matches_any, member


def prepare(
    settings: Settings, *, environ: Environ = os.environ, unrun_suffices: bool = False
) -> Project:
    """Find and check everything that a run needs. Raises NothingToDo if nothing matched; with
    `unrun_suffices`, files that are not run count as a match."""
    prepared_project = project.prepare(settings, environ=environ, unrun_suffices=unrun_suffices)
    more_problems = (
        () if prepared_project.fatal() else format_problems(settings, prepared_project.sound())
    )
    return prepared_project.with_problems(more_problems)


@process.no_garbage_search()
def discover(settings: Settings, context: Context) -> Project:
    """The project that a run measures, with the state of its checkout. It shows the problems.
    Raises as `prepare` and `require_sound`."""
    commit, dirty = context.trigger.links.commit, None
    # not in parts: the merge knows the commit
    if context.keep and context.is_attended:
        commit, dirty = git.state_of(settings.root, context.environ)
    project = require_sound(prepare(settings, environ=context.environ), strict=settings.strict)
    context.audience.show(project.problems)
    return replace(project, commit=commit, dirty=dirty)


def format_problems(settings: Settings, suites: Sequence[Suite]) -> tuple[Problem, ...]:
    """The problems that the formats find in suites, if `on-platform` or a calibration that judges
    must have needs a format."""
    rule = settings.gate_file.judge
    needs_format = settings.on_platform or rule.calibration or rule.min_kappa is not None
    rows = FORMATS.values() if needs_format else ()
    return tuple(problem for row in rows for problem in row.find_problems(settings, suites))


def require_sound(project: Project, *, strict: bool) -> Project:
    """The project to run: a broken evaluation file becomes a suite with the reason why it is not
    measured.

    Raises ConfigError with every problem if one concerns the whole run, if no sound file is left,
    or if `strict` requires it."""
    broken_files = project.broken()
    codes = {problem.code for problem in broken_files.values()}
    if (
        project.fatal()
        # or the user named only evaluations that are never run
        or not (project.sound() or codes == {"ces-not-run"})
        or (strict and project.stops(strict=True))
    ):
        raise ConfigError.collected(project.problems)
    return project.set_apart() if broken_files else project


def key_notes(agents: AgentVariables, judges: JudgeEnvironment) -> Iterator[Problem]:
    """Notes on the keys of judges: for each key that `env` names for agents and that is not a usual
    variable of a model provider, for each key in a glob of `env` (agents do not get it), and for
    each `.env` that judges use."""
    for name in sorted(agents.judge_keys):
        if name in agents.environ and agents.passes(name):
            if agents.everything or name in variables.OF_MODELS or name == CREDENTIALS:
                continue  # this is the usual case
            message = f"{name} is a judge's key, and the agent gets it as well"
            hint = "An agent that should not use it: give the judge a key under another name (`judge: api_key_env`)."
            yield errors.note("key-of-both", message, hint=hint)
        elif name in agents.environ and matches_any(name, agents.names):
            message = f"{name} is a judge's key, so it is not passed to the agent, though `env` has it in a glob"
            hint = f"If the agent needs it, name it in full: `env: {name}`."
            yield errors.note("key-of-judge", message, hint=hint)
    for file, names in judges.used.items() if agents.judge_keys else ():
        message = f"judges use {words.listed(names)} of `{file}`, as the agent does"
        yield errors.note("key-of-file", message, Place(file))


def isolation_problems(settings: Settings, context: Context) -> Iterator[Problem]:
    """Warnings if the checkout of a workflow keeps its token, if agents of a workflow run with the
    rights of its step, and if those of an isolated run can read what is expected of them."""
    if not context.is_attended and forks.keeps_token(settings.root):
        reader = "the job's other steps" if context.opening.isolate else "the agent"
        message = (
            f"the checkout keeps the job's token in git's configuration, where {reader} can read it"
        )
        hint = "Set `persist-credentials: false` at actions/checkout: the action fetches the base by its own token."
        yield errors.warning("token-in-checkout", message, hint=hint)
    if context.workflow_run and not context.opening.isolate:
        message = (
            "without isolation: agents run with the rights of this step and can read what it can read, "
            "their expected answers as well"
        )
        hint = "Use a runner with Linux and Docker."
        yield errors.warning("not-isolated", message, hint=hint)
    if context.opening.isolate and settings.needs_evaluation_files:
        message = "the agent can read its expected answers (`needs-evaluation-files: true`)"
        hint = "Keep what the agent needs in other files, and remove the setting."
        place = settings.place_of("needs_evaluation_files")
        yield errors.warning("expectations-readable", message, place, hint)


LEAST_MEMORY = 256 * 2**20
"""With less address space a new thread may end before it reports its start, and its starter waits
for that report forever."""


def make_context(
    settings: Settings,
    *,
    environ: Environ = os.environ,
    audience: Audience | None = None,
    trigger: Trigger | None = None,
    opening: Opening | None = None,
    **fields: Any,
) -> Context:
    """The context of a run; `fields`: `keep` and `scored`. By default in this process's
    environment, reported to nobody. Raises MemoryError with too little memory for a run."""
    if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_MEMORY:
        raise MemoryError
    audience = audience or Audience()
    is_of_change = "GITHUB_EVENT_NAME" in environ and events.is_of_change(environ)
    return Context(
        environ=environ,
        cache=cache_of(settings, environ, say=audience.watcher.say),
        trigger=trigger or Trigger(is_pull_request=is_of_change),
        audience=audience,
        opening=opening or Opening(isolate=settings.isolate),
        **fields,
    )


def cache_of(settings: Settings, environ: Environ, *, say: Log) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts. It is the user's
    own if the configured one has committed files: a change could contain its own verdicts."""
    user_cache = platformdirs.user_cache_path("evalgate").absolute()
    cache = Path(settings.cache).expanduser().absolute() if settings.cache else user_cache
    if not git.first_committed([cache], settings.root, environ):
        return cache
    say(f"the cache {settings.cache or cache} contains committed files and was ignored")
    return user_cache if user_cache != cache else Path(tempfile.mkdtemp(prefix="evalgate-"))


# --- a lower bound of the cost
# ----------------------------------------------------------------------


LEAST = Usage(prompt_tokens=100, candidates_tokens=5)
"""Fewer tokens than the shortest question of any judge, with its answer."""


def tell_expected(tasks: Iterable[Task], settings: Settings) -> str:
    """The least calls and cost of these trials, in a sentence; "" if no model is called.

    An agent that does what its cases expect calls its model once per turn, a scenario's once, and
    once more after each step of tool calls. Each judged criterion asks at least one question per
    trial, with as many samples as can decide it; cached replies cost nothing."""
    calls = 0
    judge_calls = 0
    least_usd = 0.0
    for task in tasks:
        calls += _calls(task.case) if agents.is_asked(task.suite.agent) else 0
        asks_models = task.suite.asks_models
        for model, count in _questions(task.suite, task.case, settings) if asks_models else ():
            judge_calls += count
            least_usd += count * (models.cost_usd(model, LEAST) or 0.0)
    cost = f"{words.dollars(least_usd)} or more; " if least_usd else ""
    texts = [words.counted(calls, "agent model call")] if calls else []
    if judge_calls and criteria_judges.defaults_of(settings).client != "replay":
        count_text = words.counted(judge_calls, "judge call")
        texts.append(f"{count_text} ({cost}cached replies are free)")
    return f"expecting at least {' and '.join(texts)}" if texts else ""


def reruns(policy: Policy, *, has_base: bool) -> str:
    """The usual and the largest number of reruns of a failure; "" if nothing is rerun."""
    if policy.threshold is ThresholdRule.ALL:
        return ""
    usual_count, most = (
        (2 * PAIRS_TO_CONFIRM, 2 * MAX_PAIRS + MAX_RUNS)
        if has_base
        else (RUNS_TO_CONFIRM, MAX_RUNS)
    )
    text = "each failure is rerun until it passes or is confirmed"
    return f"{text}: about {usual_count} runs, at most {most} (`threshold`)"


def _questions(suite: Suite, case: Case, settings: Settings) -> Iterator[tuple[str, int]]:
    """The judge's model and the number of calls of each judged criterion of a case."""
    for use in () if settings.skip_judged else suite.criteria:
        count = _samples(use, all_samples=not settings.deviations.spared_samples)
        if count and use.applies_to(case):
            model = member(use.options.get("judge_model_options"), "judge_model")
            yield str(model or ""), count


def _calls(case: Case) -> int:
    """One call per turn, and one more for each expected event with tool calls: the calls of one
    event are made together."""
    contents = (event.content for turn in case.turns for event in turn.steps)
    steps = sum(
        any(isinstance(part, ToolCall) for part in content.parts) for content in contents if content
    )
    return case.turn_count + steps


def _samples(use: CriterionUse, *, all_samples: bool) -> int:
    """The fewest samples of one question; half of the samples decide if all agree."""
    if not use.is_judged or use.code is not None:
        return 0
    if Need.VERTEX in use.needs:
        return 1
    samples = member(use.options.get("judge_model_options"), "num_samples")
    if not isinstance(samples, int):
        return 1
    return samples if all_samples or use.options.get("exhaustive") else -(-samples // 2)
