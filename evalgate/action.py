"""The workflow's door: INPUT_* and the event payload in, summary, outputs, annotations and an exit
code out."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from evalgate import __version__, config, errors, reports
from evalgate.config import Door, load, settings as config_settings
from evalgate.config.context import Watcher
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, EvalgateError, ExitCode, Problem, Severity, below
from evalgate.gate import merge, post, prepare, progress, run
from evalgate.github import events, forks, publish
from evalgate.github.client import Client
from evalgate.github.events import EventContext, EventKind
from evalgate.github.publish import Posting
from evalgate.model import Report
from evalgate.results import output
from evalgate.system import isolation, process, redact
from evalgate.text import words, workflow_commands
from evalgate.values import Environ


def wants_tracebacks(environ: Environ) -> bool:
    """True if the job runs with debug logging."""
    return environ.get("RUNNER_DEBUG") == "1"


def tell_error(error: EvalgateError, *, folder: str, debug: bool) -> None:
    """Every problem of the error, then the error itself at its place; with `debug` the traceback.
    `folder`: what their places are relative to, in the repository."""
    for problem in error.problems:
        tell_problem(problem, folder=folder)
    message = error.message + (f"\n{error.hint}" if error.hint else "")
    file, line = (
        (below(folder, error.where.file), error.where.line) if error.where else (None, None)
    )
    say(workflow_commands.render_command("error", message, file=file, line=line))
    if debug:
        say(workflow_commands.disarm(traceback.format_exc()))


def tell_problem(problem: Problem, *, folder: str) -> None:
    """A problem as the annotation that its severity asks for; `folder` as in `tell_error`."""
    say(workflow_commands.render_problem(problem.below(folder)))


def list_problems(problems: Iterable[Problem]) -> None:
    """Every problem in plain lines, as a desk shows them: a runner shows few annotations of a
    step."""
    for problem in problems:
        say(workflow_commands.disarm(str(problem)))


@contextmanager
def disarmed() -> Iterator[None]:
    """While agents speak, the runner obeys nothing: what they print may hold workflow commands."""
    word = secrets.token_hex(16)
    say(f"::stop-commands::{word}")
    try:
        yield
    finally:
        say(f"::{word}::")


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


FORK = (
    "This pull request comes from a fork: its token cannot write, so there is no comment and no check run. The job "
    "summary has the full report; `mode: post` can post it (docs/forks.md)."
)
UNTOLD = (
    "There is no token, so there is no comment and no check run. The job summary has the full report. By default, "
    "`github-token` is the job's token."
)

PREFIX = "INPUT_"
TOKEN = "github-token"  # noqa: S105 - the name of the input


@dataclass(slots=True)
class _StepOutcome:
    """The outputs of the step: a verdict, which no later error takes back, or the reason why it is
    missing. `exit_code`: the one that is written."""

    verdict: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    exit_code: ExitCode | None = None


def main(environ: Environ) -> int:
    """Run the gate as a step of a workflow and return the exit code. Everything is logged on
    stdout.

    The step's outputs are written for every end: `verdict` is `error` if there was no verdict;
    `exit-code` is the process's, even if something failed after the verdict."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _as_interrupt)
    process.close_to_others()
    outcome = _StepOutcome()
    code = _ended(environ, outcome)
    _ignore_cancels()
    if outcome.exit_code != code:
        _write_outputs(environ, outcome, code)
    return code


def _ended(environ: Environ, outcome: _StepOutcome) -> ExitCode:
    """The run, and however it ended in words."""
    debug = wants_tracebacks(environ)
    try:
        with errors.paths_explained():
            return _run(environ, outcome, debug=debug)
    except EvalgateError as error:
        tell_error(error, folder=events.folder_of(environ), debug=debug)
        outcome.reason = error.message
        return error.exit_code
    except KeyboardInterrupt:
        say(workflow_commands.render_command("error", "cancelled"))
        outcome.reason = "the run was cancelled"
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the door: a bug of ours must say so, whatever it is
        if shortage := errors.shortage(error):
            say(workflow_commands.render_command("error", shortage))
            outcome.reason = shortage
            return ExitCode.NOT_MEASURED
        outcome.reason = (
            f"internal error in evalgate {__version__}: {type(error).__name__}: {error}"
        )
        say(
            workflow_commands.render_command(
                "error", f"{outcome.reason}. Please report it with the lines below."
            )
        )
        say(workflow_commands.disarm(traceback.format_exc()))
        return ExitCode.BUG


def read_inputs(environ: Environ) -> dict[str, Any]:
    """The settings that the workflow gives: INPUT_<NAME>, upper case, hyphens kept; an empty one is
    not given.

    A runner passes inputs on that action.yml does not have. Raises ConfigError for one that is a
    setting all the same, or that looks like a mistyped input: what it asks for would not be done.
    """
    written = {
        name.removeprefix(PREFIX).lower(): value.strip()
        for name, value in environ.items()
        if name.startswith(PREFIX) and value.strip()
    }
    inputs = {
        config_settings.input_name(name): name for name in config.names_with(Settings, Door.ACTION)
    }
    findings = [
        _not_an_input(name, value, inputs)
        for name, value in written.items()
        if name not in {*inputs, TOKEN}
    ]
    if problems := [problem for problem in findings if problem is not None]:
        raise ConfigError.collected(problems)
    return {inputs[name]: value for name, value in written.items() if name in inputs}


def _not_an_input(name: str, value: str, inputs: Mapping[str, str]) -> Problem | None:
    """What to write instead; None for a name that nothing here resembles, which may be of another
    program."""
    setting = name.replace("-", "_")
    if setting in config_settings.NAMES and setting not in inputs.values():
        hint = load.line_of_input(setting, value)
    elif close := words.nearest(name, [*inputs, TOKEN], cutoff=0.8):
        hint = f"Did you mean `{close}`?"
    else:
        return None
    message = f"`{name}` is not an input of this action"
    return Problem(severity=Severity.ERROR, code="unknown-input", message=message, hint=hint)


def _workspace(environ: Environ) -> Path:
    return Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()


def _run(environ: Environ, outcome: _StepOutcome, *, debug: bool) -> ExitCode:
    inputs = read_inputs(environ)
    workspace = _workspace(environ)
    settings = load.load_settings({**inputs, "root": str(workspace / inputs.get("root", "."))})
    load.insist_passable(settings, at_home=False)
    event = events.parse_event(
        environ.get("GITHUB_EVENT_NAME", ""), events.read_event(environ), environ
    )
    forks.check(event, settings, root=settings.root)
    event = _resolved(environ, event)
    if settings.mode == "post":
        return _post(environ, settings, event, outcome)
    with _posting(environ, settings, event) as posting:
        try:
            with disarmed():
                report = _gated(environ, settings, event, posting)
        finally:
            output.hand_over(workspace)
        paths = {name: os.path.relpath(path, workspace) for name, path in report.files.items()}
        outcome.verdict = {**reports.render_outputs(report), **paths}
        is_whole = _tell(report, environ, debug=debug)
        # what is posted takes time, and a runner's patience may end
        is_whole &= _write_outputs(environ, outcome, report.exit_code)
        for problem in posting.finish() if posting is not None else ():
            tell_problem(problem, folder=events.folder_of(environ))
    return report.exit_code if is_whole else errors.without_files(report.exit_code)


def _gated(
    environ: Environ, settings: Settings, event: EventContext, posting: Posting | None
) -> Report:
    watcher: Watcher = progress.PlainWatcher(sys.stdout, times=True)
    links = events.links_of(environ, event)
    shown_problems = set[Problem]()
    texts = list[str]()

    def show(problems: Sequence[Problem]) -> None:
        list_problems(problem for problem in problems if problem not in shown_problems)
        shown_problems.update(problems)

    def present(report: Report) -> None:
        texts.append(reports.render_terminal(report))
        if posting is not None:
            posting.prepare(report)

    context = prepare.make_context(
        settings,
        environ=environ,
        watcher=watcher if posting is None else posting.watch(watcher),
        links=links,
        commit=links.commit,
        reproduce=load.render_command(settings, folder=links.folder),
        event_base=event.base_sha,
        token=token_of(environ),
        on_base_branch=event.on_default_branch,
        isolate=isolation.in_image(),
        show=show,
        present=present,
    )
    if settings.mode == "merge":
        report = merge.merge_gate(settings, context, places=_places(environ, settings))
    else:
        report = run.run(settings, context)
    show(report.problems)
    sys.stdout.write("".join(texts))
    return report


def _places(environ: Environ, settings: Settings) -> list[Path]:
    """What the input `results` names: in the workspace, where other steps bring it, or else below
    `root`."""
    workspace = _workspace(environ)
    candidates = [(workspace / place, settings.root / place) for place in settings.results]
    return [
        below if below.exists() and not there.exists() else there for there, below in candidates
    ]


def _resolved(environ: Environ, event: EventContext) -> EventContext:
    """The event, with base and head of the pull request that a `workflow_dispatch` names."""
    if event.kind is not EventKind.WORKFLOW_DISPATCH or event.number is None:
        return event
    token = token_of(environ)
    if token is None:
        raise ConfigError(
            f"workflow_dispatch: reading pull request #{event.number} needs a token",
            hint="By default, `github-token` is the job's token.",
        )
    with closing(Client.of(environ, token=token)) as client:
        return forks.resolve(event, client)


def _post(
    environ: Environ, settings: Settings, event: EventContext, outcome: _StepOutcome
) -> ExitCode:
    """Post what a run on somebody's pull request claims; 0 unless nothing could be posted: the
    verdict is not ours."""
    token = token_of(environ)
    if token is None:
        raise ConfigError(
            "`mode: post` needs a token", hint="By default, `github-token` is the job's token."
        )
    links = events.links_of_finished(environ, event)
    job = publish.job_of(environ, settings, address=links.workflow_run)
    with closing(Client.of(environ, token=token)) as client, disarmed():
        posted = post.post(settings, event, client, job=job, links=links)
        if posted.report is not None:
            sys.stdout.write(reports.render_terminal(posted.report))
    if posted.report is None:
        say(workflow_commands.render_command("notice", f"nothing to post: {posted.reason}"))
        outcome.reason = posted.reason
        return ExitCode.PASS
    for problem in posted.problems:
        tell_problem(problem, folder=events.folder_of(environ))
    if environ.get("GITHUB_STEP_SUMMARY"):
        output.append_summary(posted.summary, path=Path(environ["GITHUB_STEP_SUMMARY"]))
    outcome.verdict = reports.render_outputs(posted.report)
    return ExitCode.PASS if posted.done else ExitCode.NOT_MEASURED


@contextmanager
def _posting(environ: Environ, settings: Settings, event: EventContext) -> Iterator[Posting | None]:
    """The `Posting` for the pull request; None if there is nothing to report to or no permission.

    A run that ends without a verdict ends its check run as well."""
    posting = _open_posting(environ, settings, event)
    if posting is None:
        yield None
        return
    try:
        posting.start()
        yield posting
    except BaseException as error:
        cancelled = isinstance(error, KeyboardInterrupt)
        for problem in posting.give_up(_error_text(error), hurried=cancelled):
            tell_problem(problem, folder=events.folder_of(environ))
        raise
    finally:
        posting.close()


def _open_posting(environ: Environ, settings: Settings, event: EventContext) -> Posting | None:
    token = token_of(environ)
    if not _has_somebody(settings, event) or not environ.get("GITHUB_REPOSITORY"):
        return None
    # a change's evalgate.yml that turns reports off may not count
    is_wanted = settings.check_run or settings.comment != "off"
    if not is_wanted and event.number is None:
        return None
    is_fork = event.head.is_fork and event.kind is EventKind.PULL_REQUEST
    if is_fork or token is None:
        if is_wanted:
            say(workflow_commands.render_command("notice", FORK if is_fork else UNTOLD))
        return None
    job = publish.job_of(environ, settings, address=events.links_of(environ, event).workflow_run)
    try:
        client = Client.of(environ, token=token)
    except ConfigError as error:
        say(
            workflow_commands.render_command(
                "warning", f"nothing will be posted: {error.message} [not-posted]"
            )
        )
        return None
    take_out = redact.redactor_of_files(environ)
    return Posting(
        client, job, settings, head_sha=event.head.sha, number=event.number, redact=take_out
    )


def _has_somebody(settings: Settings, event: EventContext) -> bool:
    """True if there is a place for reports. A shard reports nothing; the job that merges them
    does."""
    somebody = event.number is not None or event.kind in (EventKind.MERGE_GROUP, EventKind.PUSH)
    return somebody and bool(event.head.sha) and not settings.shard


def _error_text(error: BaseException) -> str:
    """The reason, and what to do about it."""
    reason = _reason(error)
    hint = error.hint if isinstance(error, EvalgateError) else ""
    return f"{reason.rstrip('.')}. {hint}" if hint else reason


def _reason(error: BaseException) -> str:
    match error:
        case EvalgateError():
            return error.message
        case KeyboardInterrupt():
            return "the run was cancelled"
        case _:
            return f"internal error in evalgate ({type(error).__name__}); please report the lines in the log"


def token_of(environ: Environ) -> str | None:
    """The workflow's token: the input `github-token`, else GITHUB_TOKEN."""
    return environ.get("INPUT_GITHUB-TOKEN") or environ.get("GITHUB_TOKEN") or None


def _tell(report: Report, environ: Environ, *, debug: bool) -> bool:
    """Annotations and the job's summary; False if that cannot be written."""
    problem = None
    for line in reports.render_annotations(report):
        say(line)
    if environ.get("GITHUB_STEP_SUMMARY"):
        problem = output.append_summary(report.summary, path=Path(environ["GITHUB_STEP_SUMMARY"]))
        if problem is not None:
            tell_problem(problem, folder=events.folder_of(environ))
    if debug:
        say(workflow_commands.disarm(f"files: {dict(report.files)}"))
    return problem is None


def _write_outputs(environ: Environ, outcome: _StepOutcome, exit_code: ExitCode) -> bool:
    """After the reports and the summary: what is written last into that file is what counts. False
    if it cannot be written."""
    if not environ.get("GITHUB_OUTPUT"):
        return True
    outputs = outcome.verdict or {"verdict": "error", "reason": outcome.reason}
    step_outputs = {**outputs, "exit-code": str(int(exit_code))}
    problem = output.append_outputs(step_outputs, path=Path(environ["GITHUB_OUTPUT"]))
    if problem is not None:
        tell_problem(problem, folder=events.folder_of(environ))
    outcome.exit_code = exit_code
    return problem is None


def _ignore_cancels() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    _ignore_cancels()  # a runner sends both, seconds apart: the farewell is said once
    raise KeyboardInterrupt
