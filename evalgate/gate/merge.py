"""The merge of shards into one gate: one run per side, a new comparison, one verdict, one set of
reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evalgate import errors
from evalgate.baseline import base as baseline_base, failures, rules as baseline_rules
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place, Problem, UnavailableError
from evalgate.model import BaseSource, Report, Run, Suite
from evalgate.results import file, output, run_parts
from evalgate.results.file import Stored
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.system import git
from evalgate.worker.pipe import present
from . import decision, store
from .measure import Measurement

CHECK_OUT = "Check out the repository in the merge job, so that git can fetch the base."
"""The hint if git does not have the base's commit, as in a job without a checkout."""


def merge_gate(settings: Settings, context: Context, *, places: Sequence[Path]) -> Report:
    """Merge the results in `places` (files, or folders to search), decide by the settings, and
    report.

    Raises ConfigError if results do not belong together or are not of this workflow run,
    UnavailableError if there are none."""
    files = _files(places, output_folder=settings.root / settings.output)
    heads, bases = _read(files, places, settings, context)
    head = run_parts.join(heads).with_run(workflow_run=context.workflow_run)
    # both sides are judged as they were measured
    settings = settings.with_options(adk_compat=head.deviations.is_adk_compat)
    _require_same_root(head.run, settings, context)
    rules, rule_base = _rules(settings, head.run.suites, heads, context)
    rules, history = baseline_rules.open_history(rules, settings, rule_base, context)
    base = None
    if bases and head.comparison is not None:
        base = run_parts.join(bases).with_run(workflow_run=context.workflow_run)
    base_run = None if base is None else base.run
    comparisons = [
        head.comparison and failures.again(head.comparison, head.run, base_run, book=book)
        for book in rules.books
    ]
    measurement = Measurement(
        head=head.run,
        base=base_run,
        comparisons=comparisons,
        problems=(
            *settings.problems,
            *rules.problems,
            *head.problems,
            *_without_base(heads, bases),
        ),
    )
    outcomes = [side.outcomes for side in (head, base) if side is not None]
    report = decision.decide(measurement, rules, context, history=history)
    report = decision.publish(report, measurement, rules, context, outcomes=outcomes)
    store.keep_parts({path.parent for path in files}, rules, context)
    context.audience.present(report)
    output.write_file(
        settings.root / rules.settings.output / run_parts.DURATIONS,
        [run_parts.render_durations(head.run)],
    )
    return history.keep(report)


def _read(
    files: Sequence[Path], places: Sequence[Path], settings: Settings, context: Context
) -> tuple[tuple[Stored, ...], tuple[Stored, ...]]:
    """The shards of both sides, head's and the base's: of these `files`, which `places` have."""
    if not files:
        location = ", ".join(str(place) for place in places) or "nowhere"
        raise UnavailableError(
            f"no {RESULTS} of a shard in {location}",
            hint="All shards failed early, or their results were not downloaded: see their jobs.",
        )
    base_files = [path.with_name(BASE_RESULTS) for path in files]
    base_files = [path for path in base_files if path.is_file()]
    journals = [path.with_name(name) for path in files for name in store.JOURNALS]
    _refuse_committed(places, [*files, *base_files, *journals], settings, context)
    run = context.workflow_run
    sides: list[tuple[Stored, ...]] = []
    for paths, commit in ((files, context.trigger.links.commit), (base_files, "")):
        results = (file.read_results(path) for path in paths)
        parts = (run_parts.of_run(result, run=run, commit=commit) for result in results)
        sides.append(run_parts.parts_of(parts))
    heads, bases = sides
    for part in bases:
        if run_parts.part_of(part).fingerprint != run_parts.part_of(heads[0]).fingerprint:
            raise ConfigError("shards come from different runs", place=Place(part.file))
    return heads, bases


def _refuse_committed(
    places: Sequence[Path], files: Sequence[Path], settings: Settings, context: Context
) -> None:
    """Raises ConfigError for a committed file: a change could write the results that decide about
    it. On a developer's machine, committed results are allowed."""
    if context.is_attended or not git.first_committed(places, settings.root, context.environ):
        return
    committed_file = git.first_committed(files, settings.root, context.environ)
    if committed_file is not None:
        raise ConfigError(
            "is part of the commit, not a result of this workflow",
            place=Place(os.path.relpath(committed_file, settings.root)),
            hint="Delete it from the commit, and unpack the shards' artifacts into a folder of their own.",
        )


def _require_same_root(run: Run, settings: Settings, context: Context) -> None:
    """Raises ConfigError if the shards ran in another folder of the repository than the settings
    name: evalgate.yml and links would differ."""
    merge_root = store.root_of(settings.root, context.trigger.links)
    if None in (run.root, merge_root) or run.root == merge_root:
        return
    shard_folder, merge_folder = (
        f"`{root}`" if root else "the top of the repository" for root in (run.root, merge_root)
    )
    raise ConfigError(
        f"the shards ran in {shard_folder}, but this merge runs in {merge_folder}",
        hint=f"Use the shards' `root`: `{run.root or '.'}`, from the top of the repository.",
    )


def _files(places: Iterable[Path], *, output_folder: Path) -> list[Path]:
    """Every results.json, each once. Results of an earlier merge, in `output_folder`, are skipped
    unless they are named."""
    paths: list[Path] = []
    for place in places:
        if place.is_dir():
            paths += (
                path
                for path in sorted(place.rglob(RESULTS))
                if not path.absolute().is_relative_to(output_folder.absolute())
            )
        elif place.is_file():
            paths.append(place)
        else:
            raise ConfigError(
                "does not exist",
                place=Place(str(place)),
                hint="Paths are relative to the working directory (in a workflow: the workspace), not to `root`.",
            )
    return list(dict.fromkeys(paths))


def _rules(
    settings: Settings, suites: tuple[Suite, ...], heads: Sequence[Stored], context: Context
) -> tuple[Rules, Base | None]:
    """The rule books that decide on the shards, and the base, which the shards name."""
    origins = (part.comparison.origin for part in heads if part.comparison is not None)
    commits = (origin.commit for origin in origins if origin.source is not BaseSource.FILE)
    base_commit = next((commit for commit in commits if commit), settings.base)
    if not (base_commit or context.trigger.base or context.trigger.is_pull_request):
        return baseline_rules.in_force(settings, suites, None), None
    # only its code and its rules are needed
    settings = settings.with_options(baseline="rerun", **present(base=base_commit))
    with baseline_base.open_bases(settings, suites, context) as (base, _):
        is_lost = base is not None and not base.origin.commit  # git does not have it
        hint = CHECK_OUT if is_lost else baseline_rules.REVIEW_HINT
        return baseline_rules.in_force(settings, suites, base, context, hint=hint), base


def _without_base(heads: Sequence[Stored], bases: Sequence[Stored]) -> Iterator[Problem]:
    """A warning for every shard that lacks the base's side while others have it."""
    base_indexes = {run_parts.part_of(part).index for part in bases}
    for part in heads if base_indexes else ():
        shard = run_parts.part_of(part)
        if shard.index not in base_indexes and shard.index in shard.homes.values():
            reason = (part.comparison and part.comparison.problem) or "it had no baseline"
            yield errors.warning(
                "shard-without-base", f"shard {shard} has no base results: {reason}"
            )
