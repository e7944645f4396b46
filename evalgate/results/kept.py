"""Local runs: `.evalgate/runs/<time>-<commit>` has the files of each run, and its run.json
describes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalgate import errors
from evalgate.config import places
from evalgate.errors import Place, Problem
from evalgate.model import CaseKey, PastCase, Report, VerdictKind
from evalgate.system.files import new_file
from evalgate.values import Redactor, grouped
from . import labels as results_labels, output
from .labels import CaseLabel
from .output import RESULTS

FOLDER = ".evalgate"
"""The folder of all that evalgate keeps, in the root of the evaluation files."""
RUNS = f"{FOLDER}/runs"
"""A folder for each run, named by its start."""
ABOUT = "run.json"
"""The file with the facts on a kept run, beside its results."""
MOST_RUNS = 20
"""The oldest further ones are removed."""
MOST_BYTES = 500_000_000
"""Of all kept runs: the oldest ones beyond it are removed."""
LONGEST_ABOUT = 64_000_000
"""Bytes of a run.json that is read."""
STAMP = "%Y%m%dT%H%M%SZ"
"""The UTC time in the names of runs, whose order is that of time."""


class KeptRun(BaseModel):
    """A kept run: its folder, and the contents of its run.json."""

    model_config = ConfigDict(frozen=True)

    folder: Path = Field(default=Path(), exclude=True)
    """Where it was found; not part of its run.json."""
    evalgate: str = ""
    """The version that wrote it."""
    started_at: str = ""
    """ISO 8601, UTC."""
    commit: str = ""
    """Its full SHA; "" if unknown."""
    dirty: bool | None = None
    """True if files differed from the commit; None if unknown."""
    command: str = ""
    """It shows the same again; "" if unknown."""
    complete: bool = True
    """False if it was interrupted."""
    selected: bool = False
    """True if paths, ids or a pattern chose the cases, so that there may be others."""
    shown_in: str = ""
    """The output folder with its files; "" if that has those of a run of more cases."""
    verdict: VerdictKind
    cases: dict[str, dict[str, VerdictKind]]
    """The verdict of each case, by suite and id."""
    labels: dict[str, dict[str, CaseLabel]] = {}
    """The label of each case in the reports, by suite and id."""

    @property
    def results(self) -> Path:
        """Its results.json."""
        return self.folder / RESULTS

    @property
    def is_whole(self) -> bool:
        """True if it has all cases."""
        return self.complete and not self.selected

    def outcomes(self) -> dict[CaseKey, tuple[VerdictKind, CaseLabel | None]]:
        """The verdict and the label of each case, by suite and id; a run by an older evalgate has
        no labels."""
        return {
            (suite, case): (kind, self.labels.get(suite, {}).get(case))
            for suite, cases in self.cases.items()
            for case, kind in cases.items()
        }


def runs(root: Path) -> list[KeptRun]:
    """The kept runs, newest first; unreadable ones are skipped."""
    try:
        paths = (root / RUNS).iterdir()
        folders = [path for path in paths if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    # of one moment, the folder that was made later comes first
    folders.sort(key=lambda path: (path.name[:16], path.stat().st_mtime_ns), reverse=True)
    kept_runs = []
    for folder in folders:
        with suppress(OSError, ValueError, ValidationError):
            file = folder / ABOUT
            if file.stat().st_size <= LONGEST_ABOUT and (folder / RESULTS).is_file():
                run = KeptRun.model_validate_json(file.read_bytes())
                kept_runs.append(run.model_copy(update={"folder": folder}))
    return kept_runs


def of_cases(root: Path) -> dict[CaseKey, tuple[PastCase, ...]]:
    """The outcomes of each case in the kept runs, oldest first; empty if their folder is a link to
    elsewhere."""
    if places.refusal_reason(root, FOLDER, trusted=True):
        return {}
    past_cases = grouped(
        (
            key,
            PastCase(
                at=run.started_at,
                commit=run.commit,
                kind=kind,
                place="this computer",
                outcome=kind.value.replace("_", " "),
            ),
        )
        for run in reversed(runs(root))
        for key, (kind, _) in run.outcomes().items()
    )
    return {key: tuple(cases) for key, cases in past_cases.items()}


def write(
    texts: Iterable[tuple[str, str, Iterable[str]]],
    to: Path,
    report: Report,
    *,
    root: Path,
    is_selected: bool,
    moment: datetime,
    redact: Redactor,
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """`output.write_all` into the run's own folder, without secrets; and into the folder `to`,
    unless that has the results of more cases. Return the paths by name, and warnings."""
    texts = ((name, file_name, map(redact, pieces)) for name, file_name, pieces in texts)
    try:
        folder = _make_folder(root, report.run.commit, moment)
    except OSError as error:
        message = f"the run is not kept: {error.strerror or error}"
        files, problems = output.write_all(texts, to)
        return files, (errors.warning("not-kept", message, Place(RUNS)), *problems)
    earlier = runs(root)
    files, problems = output.write_all(texts, folder)
    run = _kept_run(report, folder, earlier, selected=is_selected)
    if _may_replace(run, earlier, to):
        run = run.model_copy(update={"shown_in": str(to)})
        files, link_problems = _link_files(files, to)
        problems = (*problems, *link_problems)
    problem = output.write_file(folder / ABOUT, [run.model_dump_json(exclude_defaults=True) + "\n"])
    _remove_old([run, *earlier])
    return files, (*problems, *filter(None, [problem]))


def _kept_run(
    report: Report, folder: Path, earlier: Iterable[KeptRun], *, selected: bool
) -> KeptRun:
    """The description of a run. Of cases that an interrupted one did not begin, `earlier` results
    remain the newest."""
    run = report.run
    earlier_keys = {key for earlier_run in earlier for key in earlier_run.outcomes()}
    unbegun_keys = (
        set() if run.complete else (earlier_keys - {trial.key.case for trial in run.trials})
    )
    case_labels = results_labels.labels_of(report)
    suites = grouped(
        (case.suite, case) for case in report.verdict.cases if case.key not in unbegun_keys
    )
    return KeptRun(
        folder=folder,
        evalgate=report.display.version,
        started_at=run.started_at,
        commit=run.commit,
        dirty=run.dirty,
        command=report.display.reproduce,
        complete=run.complete,
        selected=selected,
        verdict=report.verdict.kind,
        cases={
            suite: {case.case_id: case.kind for case in cases} for suite, cases in suites.items()
        },
        labels={
            suite: {case.case_id: case_labels[case.key] for case in cases}
            for suite, cases in suites.items()
        },
    )


def _make_folder(root: Path, commit: str, moment: datetime) -> Path:
    """A new folder for a run. Raises OSError."""
    output.make_folder(root / RUNS)
    name = f"{moment.strftime(STAMP)}-{commit[:7] or 'no-commit'}"
    for number in range(1, 1000):
        folder = root / RUNS / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise FileExistsError(0, "too many runs at this moment", str(root / RUNS))


def _may_replace(run: KeptRun, earlier: Sequence[KeptRun], to: Path) -> bool:
    """True if this run's files may replace the folder's: a part of the cases must not replace
    all."""
    if not (to / RESULTS).exists():
        return True
    present = next((known for known in earlier if known.shown_in == str(to)), None)
    if present is None:  # an unknown run
        return run.is_whole
    if present.complete and not run.complete:
        return False
    return not run.selected or present.outcomes().keys() <= run.outcomes().keys()


def _link_files(files: Mapping[str, str], to: Path) -> tuple[dict[str, str], list[Problem]]:
    """Link the files into the folder as well; return their paths there, and warnings."""
    paths = {}
    problems = []
    with suppress(OSError):  # reported per file
        output.make_folder(to)
    for name, source in files.items():
        path = to / Path(source).name
        paths[name] = str(path)
        try:
            with new_file(path) as draft:
                try:
                    os.link(source, draft)
                except OSError:  # another file system, or one without links
                    shutil.copyfile(source, draft)
        except OSError as error:
            paths[name] = source
            problems.append(output.not_written(path, error))
    return paths, problems


def _remove_old(kept_runs: Sequence[KeptRun]) -> None:
    """Keep the newest runs within the limits, and the newest run of all cases, however many partial
    runs followed."""
    whole_runs = [run for run in kept_runs if run.is_whole]
    size = 0
    for index, run in enumerate(kept_runs):
        with suppress(OSError):
            size += sum(entry.stat().st_size for entry in os.scandir(run.folder))
        is_needed = index == 0 or run in whole_runs[:1]
        if not is_needed and (index >= MOST_RUNS or size > MOST_BYTES):
            shutil.rmtree(run.folder, ignore_errors=True)
