"""Every error that a user can meet, with its exit code, its place and its next step.

- EvalgateError, 70: raised itself only for internal errors.
- ConfigError, 2: the repository or the inputs cannot be read.
- UnavailableError, 3: an agent, a judge, git or GitHub could not be reached, so too little was
  measured.
- NothingToDo, 4: no evaluation file, case or criterion matched.

A failed case is a value (`model.Verdict`), never an exception.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from evalgate.values import Wording


class ExitCode(enum.IntEnum):
    """The exit code of the process."""

    PASS = 0
    """The gate does not block."""
    FAIL = 1
    """The gate blocks."""
    CONFIG = 2
    """Inputs or files cannot be read."""
    NOT_MEASURED = 3
    """A service could not be reached, or the policy blocks on inconclusive / not measured."""
    NOTHING_TO_DO = 4
    """Nothing matched, which is never a pass."""
    BUG = 70
    """An internal error (EX_SOFTWARE)."""
    INTERRUPTED = 130
    """Ctrl-C; partial results are on disk."""


def shortage(error: Exception) -> str:
    """What this machine lacks, and what to raise, if that is what an error means; "" for others."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit (`ulimit -n`)"
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return "Too little memory, or too few processes: raise the limit (`ulimit -v`, `ulimit -u`)"
    return ""


def below(folder: str, file: str) -> str:
    """A file's name, from the folder that `folder` is relative to; "" is that folder itself."""
    return file if not folder or file.startswith("/") else f"{folder}/{file}"


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the user's files; lines and columns count from 1."""

    file: str
    """A POSIX path, relative to the root unless it lies outside."""
    line: int | None = None
    column: int | None = None
    json_path: str = ""
    """The path of a value within its document, such as `$.suites[0].match`."""

    def __str__(self) -> str:
        """`FILE:LINE:COLUMN (JSON_PATH)`, as far as they are known."""
        text = self.file
        if self.line is not None:
            text += f":{self.line}"
            if self.column is not None:
                text += f":{self.column}"
        return f"{text} ({self.json_path})" if self.json_path else text


class Severity(enum.StrEnum):
    """The severity of a problem: an error stops the run or its suite, a warning is shown, a note
    only explains."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "notice"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about the user's files or inputs."""

    severity: Severity
    code: str
    """A stable kebab-case name (`unknown-criterion`), documented in docs/validate.md."""
    message: Wording
    place: Place | None = None
    """None if the finding is about no file."""
    hint: Wording = ""
    """What to do, in as many lines as it takes."""

    def below(self, folder: str) -> Problem:
        """The same problem, with its place from the folder that `folder` is relative to."""
        if self.place is None:
            return self
        place = replace(self.place, file=below(folder, self.place.file))
        return replace(self, place=place)

    @property
    def text(self) -> str:
        """Its place and its message."""
        return f"{self.place}: {self.message}" if self.place else str(self.message)

    def __str__(self) -> str:
        """A line of a log, with the severity and the code; the hint is below it."""
        prefix = f"{self.place}: " if self.place else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{prefix}{self.severity.value}: {self.message} [{self.code}]{hint}"


error = partial(Problem, Severity.ERROR)
"""A problem that stops the run, or the suite whose files it is in."""
warning = partial(Problem, Severity.WARNING)
"""A problem that is shown, and that stops the run with `strict`."""
note = partial(Problem, Severity.NOTE)
"""A problem that only explains."""


def errors_in(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that are errors."""
    return [problem for problem in problems if problem.severity is Severity.ERROR]


def once(show: Callable[[Problem], None]) -> Callable[[Iterable[Problem]], None]:
    """A function that shows those of some problems that were not shown before."""
    shown_problems = set[Problem]()

    def show_new(problems: Iterable[Problem]) -> None:
        """Show the problems that are new."""
        for problem in problems:
            if problem not in shown_problems:
                shown_problems.add(problem)
                show(problem)

    return show_new


class EvalgateError(Exception):
    """An error that the user must know; shown once, at the top level."""

    exit_code: ClassVar[ExitCode] = ExitCode.BUG
    """Of the process, if the error ends it."""

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        hint: str = "",
        problems: Iterable[Problem] = (),
    ) -> None:
        """`problems`: the findings that are the cause, if there are any."""
        super().__init__(message)
        self.message = message
        self.where = place
        """None if the error is about no file."""
        self.hint = hint
        """What to do; "" if the message says it."""
        self.problems = tuple(problems)

    @property
    def text(self) -> str:
        """Its place and its message."""
        return f"{self.where}: {self.message}" if self.where else self.message

    @property
    def advice(self) -> str:
        """Its message, and what to do."""
        return f"{self.message.rstrip('.')}. {self.hint}" if self.hint else self.message

    @property
    def fatal(self) -> Iterable[Problem]:
        """The problems that count: errors, or the warnings if only `strict` made them count."""
        return errors_in(self.problems) or self.problems


class ConfigError(EvalgateError):
    """The repository or the inputs cannot be read; all problems at once."""

    exit_code = ExitCode.CONFIG

    @classmethod
    def collected(cls, problems: Iterable[Problem]) -> ConfigError:
        """One error for all `problems`. Its message counts those of severity error, or the warnings
        if only `strict` made them count."""
        all_problems = tuple(problems)
        errors = len(errors_in(all_problems))
        warnings = sum(1 for problem in all_problems if problem.severity is Severity.WARNING)
        count, noun, remark = (
            (errors, "problem", "")
            if errors
            else (warnings, "warning", ", treated as errors (`strict`)")
        )
        plural = "" if count == 1 else "s"
        error = cls(
            f"{count} {noun}{plural} in the configuration or the evaluation files{remark}",
            problems=all_problems,
        )
        for problem in error.fatal:  # tracebacks of tests and of Python callers show them
            error.add_note(str(problem))
        return error


class UnavailableError(EvalgateError):
    """The agent, a judge, git or GitHub could not be reached, so nothing could be measured."""

    exit_code = ExitCode.NOT_MEASURED


class NothingToDo(EvalgateError):  # noqa: N818 - the name of its exit code
    """No evaluation file, case or criterion matched. It has its own exit code, since an empty run
    is not a pass."""

    exit_code = ExitCode.NOTHING_TO_DO


class NoEvaluationFile(NothingToDo):
    """The repository has no evaluation file yet."""


@contextmanager
def unavailable(failure: str) -> Iterator[None]:
    """Raises UnavailableError for errors of the system, with this message and their reason."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{failure}: {error.strerror or error}") from error


@contextmanager
def paths_explained() -> Iterator[None]:
    """Catch errors for paths that no system accepts, wherever they come from: they are not internal
    errors.

    Raises ConfigError instead of the system's error."""
    hint = "Look for it in evalgate.yml, in the inputs and in the evaluation files."
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        raise ConfigError(f"{error.strerror}: {str(error.filename)[:200]!r}", hint=hint) from error
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        message = f"a name contains half a character (a lone surrogate): {error.object[:200]!r}"
        raise ConfigError(message, hint=hint) from error
    except ValueError as error:
        if str(error) != "embedded null byte":
            raise
        raise ConfigError("a path contains the character U+0000", hint=hint) from error
