"""The workflow step: INPUT_* and the event payload in; summary, outputs, annotations and an exit
code out."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from evalgate import __version__, config, errors, reports
from evalgate.config import Door, load, settings as config_settings
from evalgate.config.context import Audience, Opening, Trigger, run_of
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, EvalgateError, ExitCode, Problem
from evalgate.gate import merge, post, prepare, progress, run, store
from evalgate.github import events, forks, publish
from evalgate.github.check_run import Output
from evalgate.github.client import Client
from evalgate.github.events import EventContext, EventKind
from evalgate.github.publish import Posting
from evalgate.model import Report
from evalgate.results import journal as journals, output
from evalgate.system import isolation, process, redact
from evalgate.text import words
from evalgate.text.plain import disarm
from evalgate.text.workflow_commands import render_command, render_problem
from evalgate.values import Environ


def report_error(error: EvalgateError, environ: Environ, *, debug: bool) -> None:
    """Report every problem of the error, then the error itself at its place; with `debug` the
    traceback."""
    own_problem = errors.error("", error.message, error.where, error.hint)
    annotate((*error.problems, own_problem), environ)
    if debug:
        say(disarm(traceback.format_exc()))


def annotate(problems: Iterable[Problem], environ: Environ) -> None:
    """Report each problem as the annotation of its severity, at its place in the repository."""
    folder = events.folder_of(environ)
    for problem in problems:
        say(render_problem(problem.below(folder)))


@contextmanager
def commands_stopped() -> Iterator[None]:
    """Stop workflow commands while agents run: their output may contain some."""
    stop_token = secrets.token_hex(16)
    say(f"::stop-commands::{stop_token}")
    try:
        yield
    finally:
        say(f"::{stop_token}::")


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tell(kind: str, message: str) -> None:
    """Print a message as an annotation: an `error`, a `warning` or a `notice`."""
    say(render_command(kind, message))


FORK_NOTE = (
    "This pull request comes from a fork: its token cannot write, so there is no comment and no check run. The job "
    "summary has the full report; `mode: post` can post it (docs/forks.md)."
)
"""The notice in place of posts for a fork's pull request."""
NO_POSTS_NOTE = (
    "There is no token, so there is no comment and no check run. The job summary has the full report. By default, "
    "`github-token` is the job's token."
)
"""The notice in place of posts for a step without a token."""

UNWRITTEN = "the job's summary or the step's outputs could not be written"
"""Why a posted decision does not count: the report was made before, and says otherwise."""

PREFIX = "INPUT_"
"""Of the variables in which a runner passes the inputs of the action."""
TOKEN = "github-token"  # noqa: S105 - the name of the input
"""The only input that is not a setting."""


@dataclass(slots=True)
class _StepOutcome:
    """The outputs of the step: a verdict, which no later error removes, or the reason why it is
    missing."""

    verdict: Mapping[str, str] = field(default_factory=dict)
    """Texts by the names of outputs; empty without a verdict."""
    reason: str = ""
    """Why there is no verdict; it becomes an output of the step."""
    failure: str = ""
    """The job's summary without a verdict; "" for the reason alone."""
    exit_code: ExitCode | None = None
    """The one that was written."""


def main(environ: Environ) -> int:
    """Run the gate as a step of a workflow and return the exit code. Everything is logged on
    stdout.

    The step's outputs are written in every case: `verdict` is `error` if there was no verdict;
    `exit-code` is the process's, even if something failed after the verdict."""
    _on_cancel(_as_interrupt)
    process.close_to_other_processes()
    outcome = _StepOutcome()
    code = _run_to_end(environ, outcome)
    _on_cancel(signal.SIG_IGN)
    if outcome.exit_code != code:
        _write_outputs(environ, outcome, code)
    return code


def _run_to_end(environ: Environ, outcome: _StepOutcome) -> ExitCode:
    """Run, and report any error; return the exit code."""
    debug = environ.get("RUNNER_DEBUG") == "1"
    try:
        with errors.paths_explained():
            return _run(environ, outcome, debug=debug)
    except EvalgateError as error:
        report_error(error, environ, debug=debug)
        outcome.reason = error.message
        outcome.failure = _undecided(error, environ).summary
        return error.exit_code
    except KeyboardInterrupt:
        tell("error", "cancelled")
        outcome.reason = "the run was cancelled"
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler: it reports any bug as one
        if shortage := errors.shortage(error):
            tell("error", shortage)
            outcome.reason = shortage
            return ExitCode.NOT_MEASURED
        outcome.reason = (
            f"internal error in evalgate {__version__}: {type(error).__name__}: {error}"
        )
        tell("error", f"{outcome.reason}. Please report it with the lines below.")
        say(disarm(traceback.format_exc()))
        return ExitCode.BUG


def read_inputs(environ: Environ) -> dict[str, Any]:
    """The settings in the workflow's inputs: INPUT_<NAME>, upper case, with hyphens; empty ones do
    not count.

    A runner also passes inputs that action.yml does not have. Raises ConfigError if such an input
    is a setting, or looks like a mistyped input: it would have no effect."""
    input_texts = {
        name.removeprefix(PREFIX).lower(): text.strip()
        for name, text in environ.items()
        if name.startswith(PREFIX) and text.strip()
    }
    inputs = {
        config_settings.input_name(name): name for name in config.names_with(Settings, Door.ACTION)
    }
    problems: list[Problem] = []
    for name, text in input_texts.items():
        setting = name.replace("-", "_")
        if name in {*inputs, TOKEN}:
            continue
        if setting in config_settings.NAMES and setting not in inputs.values():
            hint = load.line_of_input(setting, text)
        elif nearest_name := words.nearest(name, [*inputs, TOKEN], cutoff=0.8):
            hint = f"Did you mean `{nearest_name}`?"
        else:  # it may be another program's
            continue
        message = f"`{name}` is not an input of this action"
        problems.append(errors.error("unknown-input", message, hint=hint))
    if problems:
        raise ConfigError.collected(problems)
    return {inputs[name]: text for name, text in input_texts.items() if name in inputs}


def conclude(
    environ: Environ, reason: str, *, is_cancelled: bool = False, journal: Path | None = None
) -> int:
    """Post, and write as the step's outputs, that a gate which was ended from outside has no
    verdict, and why; return the exit code. `journal`: head's, if it is not at its usual place."""
    outcome = _StepOutcome(reason=reason)
    try:
        with errors.paths_explained():
            settings, event = _read_request(environ)
            path = journal or settings.root / settings.output / store.JOURNALS[store.HEAD]
            if not journals.is_free(path):
                raise journals.in_use(path)
            tell("error", reason)
            progress = store.progress(path, workflow_run=run_of(environ))
        if progress:
            outcome.reason = f"{reason}: {progress}"
        posting = _open_posting(environ, settings, event)
        if posting is not None:
            annotate(
                posting.conclude(publish.undecided(outcome.reason), hurried=is_cancelled), environ
            )
    except EvalgateError as error:
        report_error(error, environ, debug=False)
    code = ExitCode.INTERRUPTED if is_cancelled else ExitCode.NOT_MEASURED
    _write_outputs(environ, outcome, code)
    return code


def _read_request(environ: Environ) -> tuple[Settings, EventContext]:
    """The settings of the workflow and the checkout, and the event. Raises EvalgateError."""
    inputs = read_inputs(environ)
    root = events.workspace(environ) / inputs.get("root", ".")
    settings = load.load_settings({**inputs, "root": str(root)})
    load.refuse_job_variables(settings, at_home=False)
    return settings, _read_event(environ, settings)


def _read_event(environ: Environ, settings: Settings) -> EventContext:
    """The event, with base and head of the pull request of a `workflow_dispatch`. Raises
    EvalgateError if it must not run what the settings request."""
    event = events.parse_event(
        environ.get("GITHUB_EVENT_NAME", ""), events.read_event(environ), environ
    )
    forks.check(event, settings, root=settings.root, environ=environ)
    if event.kind is not EventKind.WORKFLOW_DISPATCH or event.number is None:
        return event
    reason = f"workflow_dispatch: reading pull request #{event.number}"
    with closing(_client(environ, reason)) as client:
        return forks.resolve(event, client)


def _client(environ: Environ, purpose: str) -> Client:
    """The client for the workflow's token. Raises ConfigError, also without a token."""
    token = token_of(environ)
    if token is None:
        raise ConfigError(
            f"{purpose} needs a token", hint="By default, `github-token` is the job's token."
        )
    return Client.of(environ, token=token)


def _run(environ: Environ, outcome: _StepOutcome, *, debug: bool) -> ExitCode:
    """Post an earlier run's report, or run the gate and post as it goes. Raises EvalgateError."""
    try:
        settings, event = _read_request(environ)
    except EvalgateError as error:
        with suppress(EvalgateError, ValueError):
            _post_unread(environ, error)
        raise
    workspace = events.workspace(environ)
    if settings.mode == "post":
        return _post(environ, settings, event, outcome)
    with _posting(environ, settings, event) as posting:
        try:
            with commands_stopped():
                report = _run_gate(environ, settings, event, posting)
        finally:
            output.hand_over(workspace)
        paths = {name: os.path.relpath(path, workspace) for name, path in report.files.items()}
        outcome.verdict = {**reports.render_outputs(report), **paths}
        for line in reports.render_annotations(report):
            say(line)
        is_whole = _append(SUMMARY, report.display.summary, environ)
        if debug:
            say(disarm(f"files: {dict(report.files)}"))
        # posting takes time, and the runner may end the step
        is_whole &= _write_outputs(environ, outcome, report.exit_code)
        code = report.exit_code
        if code is ExitCode.PASS and not is_whole:
            code = ExitCode.NOT_MEASURED
        if posting is not None:
            # what the report says of itself does not hold any more
            reason = "" if code is report.exit_code else UNWRITTEN
            annotate(posting.finish(reason), environ)
    return code


def _post_unread(environ: Environ, error: EvalgateError) -> None:
    """Post why the settings cannot be read: an earlier result is not this commit's. Only the inputs
    that say where to post count, and evalgate.yml if it can be read. Raises EvalgateError or
    ValueError if these inputs are wrong, too."""
    if environ.get(f"{PREFIX}MODE", "").strip() == "post":  # the verdict is another run's
        return
    inputs = {
        name: text
        for name in ("root", "config", "name", "comment", "shard")
        if (text := environ.get(f"{PREFIX}{name.upper()}", "").strip())
    }
    inputs["root"] = str(events.workspace(environ) / inputs.get("root", "."))
    try:
        settings = load.load_settings(inputs)
    except EvalgateError:
        settings = Settings.model_validate(inputs)
    posting = _open_posting(environ, settings, _read_event(environ, settings))
    if posting is not None:
        annotate(posting.conclude(_undecided(error, environ), hurried=False), environ)


def _run_gate(
    environ: Environ, settings: Settings, event: EventContext, posting: Posting | None
) -> Report:
    """The report of a run, or of its merged shards; progress and results are logged. Raises
    EvalgateError."""
    process.end_with_run()
    show_progress = None if posting is None else posting.show_progress
    links = events.links_of(environ, event)
    texts = list[str]()
    # as plain lines, since a runner shows few annotations of a step
    show = errors.once(lambda problem: say(disarm(str(problem))))

    def present(report: Report) -> None:
        """Render what is shown and posted later: the report's conversations cannot be read after
        the run."""
        texts.append(reports.render_terminal(report))
        if posting is not None:
            posting.prepare(report)

    audience = Audience(
        watcher=progress.PlainWatcher(sys.stdout, times=True, show_progress=show_progress),
        show=show,
        present=present,
        reproduce=load.render_command(settings, folder=links.folder),
    )
    trigger = Trigger(
        is_pull_request=events.is_of_change(environ),
        links=links,
        base=event.base_sha,
        token=token_of(environ),
        on_base_branch=event.on_default_branch,
    )
    context = prepare.make_context(
        settings,
        environ=environ,
        audience=audience,
        trigger=trigger,
        opening=Opening(isolate=isolation.in_image()),
    )
    if settings.mode == "merge":
        workspace = events.workspace(environ)
        places = [workspace / place for place in settings.results]
        report = merge.merge_gate(settings, context, places=places)
    else:
        report = run.run(settings, context)
    show(report.problems)
    sys.stdout.write("".join(texts))
    return report


def _post(
    environ: Environ, settings: Settings, event: EventContext, outcome: _StepOutcome
) -> ExitCode:
    """Post the claims of a pull request's own run; 0 unless nothing could be posted: the verdict is
    not ours."""
    links = events.links_of(environ, event, run=event.run)
    job = publish.job_of(environ, settings, address=links.workflow_run)
    with closing(_client(environ, "`mode: post`")) as client, commands_stopped():
        outcome_of_post = post.post(settings, event, client, job=job, links=links)
        if outcome_of_post.report is not None:
            sys.stdout.write(reports.render_terminal(outcome_of_post.report))
    if outcome_of_post.report is None:
        tell("notice", f"nothing to post: {outcome_of_post.reason}")
        outcome.reason = outcome_of_post.reason
        return ExitCode.PASS
    annotate(outcome_of_post.problems, environ)
    _append(SUMMARY, outcome_of_post.summary, environ)
    outcome.verdict = reports.render_outputs(outcome_of_post.report)
    return ExitCode.NOT_MEASURED if outcome_of_post.has_failed else ExitCode.PASS


@contextmanager
def _posting(environ: Environ, settings: Settings, event: EventContext) -> Iterator[Posting | None]:
    """The `Posting` for the pull request; None if there is no place for posts or no permission.

    A run that ends without a verdict also ends its check run."""
    posting = _open_posting(environ, settings, event)
    if posting is None:
        yield None
        return
    try:
        posting.start()
        yield posting
    except BaseException as error:
        is_cancelled = isinstance(error, KeyboardInterrupt)
        annotate(posting.give_up(_undecided(error, environ), hurried=is_cancelled), environ)
        raise
    finally:
        posting.close()


def _open_posting(environ: Environ, settings: Settings, event: EventContext) -> Posting | None:
    """The posts for this event, not begun; None, if need be with a notice, if there are none."""
    token = token_of(environ)
    has_place = event.number is not None or event.kind in (EventKind.MERGE_GROUP, EventKind.PUSH)
    # a part posts nothing; the job that merges the parts does
    if settings.shard or not (has_place and event.head.sha and environ.get("GITHUB_REPOSITORY")):
        return None
    # the change's evalgate.yml may turn reports off, and may not count
    is_wanted = settings.check_run or settings.comment != "off"
    if not is_wanted and event.number is None:
        return None
    is_fork = event.head.is_fork and event.kind is EventKind.PULL_REQUEST
    if is_fork or token is None:
        if is_wanted:
            tell("notice", FORK_NOTE if is_fork else NO_POSTS_NOTE)
        return None
    job = publish.job_of(environ, settings, address=events.links_of(environ, event).workflow_run)
    try:
        client = Client.of(environ, token=token)
    except ConfigError as error:
        tell("warning", f"nothing will be posted: {error.message} [not-posted]")
        return None
    redact_text = redact.redactor_of_files(environ)
    return Posting(
        client, job, settings, head_sha=event.head.sha, number=event.number, redact=redact_text
    )


def _undecided(error: BaseException, environ: Environ) -> Output:
    """The reason, with advice and the problems that it counts."""
    if isinstance(error, EvalgateError):
        folder = events.folder_of(environ)
        return publish.undecided(error.advice, [problem.below(folder) for problem in error.fatal])
    bug = f"internal error in evalgate ({type(error).__name__}); please report the lines in the log"
    return publish.undecided(
        "the run was cancelled" if isinstance(error, KeyboardInterrupt) else bug
    )


def token_of(environ: Environ) -> str | None:
    """The workflow's token: the input `github-token`, else GITHUB_TOKEN."""
    return environ.get("INPUT_GITHUB-TOKEN") or environ.get("GITHUB_TOKEN") or None


SUMMARY = "GITHUB_STEP_SUMMARY"
"""The runner's variable with the path of the job's summary, a file in Markdown."""
OUTPUTS = "GITHUB_OUTPUT"
"""The runner's variable with the path of the file for the step's outputs."""


def _append(variable: str, text: str, environ: Environ) -> bool:
    """Add the text to one of the runner's files, if it has that; False if it cannot be written."""
    path = environ.get(variable)
    problem = output.append(Path(path), text) if path else None
    if problem:
        annotate([problem], environ)
    return problem is None


def _write_outputs(environ: Environ, outcome: _StepOutcome, exit_code: ExitCode) -> bool:
    """Write the step's outputs, after the reports and the summary: the last written values count.
    False if they cannot be written."""
    if exit_code is not ExitCode.PASS and not outcome.verdict:
        failure = outcome.failure or publish.undecided(outcome.reason).summary
        _append(SUMMARY, failure, environ)
    outputs = outcome.verdict or {"verdict": "error", "reason": outcome.reason}
    step_outputs = {**outputs, "exit-code": str(int(exit_code))}
    outcome.exit_code = exit_code
    return _append(OUTPUTS, output.render_outputs(step_outputs), environ)


def _on_cancel(handler: Any) -> None:
    """What the signals of a cancelled job call, in the signal module's terms."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    """The handler of a cancelled job's signals: the run ends, and cleans up."""
    _on_cancel(signal.SIG_IGN)  # a runner sends both, seconds apart: only one ends the run
    raise KeyboardInterrupt
