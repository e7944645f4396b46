"""`evalgate calibrate`: judge-human agreement, locally or in a scheduled workflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.errors import ConfigError, ExitCode, NothingToDo
from evalgate.gate import prepare
from evalgate.model.run import total_of
from evalgate.results import file, output
from evalgate.text import plain, words
from . import (
    agreement,
    calibrate,
    labels as calibration_labels,
)

FILE_NAME = "calibration.json"
RESULTS = "results.json"
SETTINGS = ("root", "config", "criteria", "adk_compat", "output", "cache", "debug")


@click.command("calibrate")
@commands.options(*SETTINGS)
@click.option(
    "--conversations",
    metavar="FILE",
    help="The results.json that the labels refer to. [default: the last run's]",
)
@click.option(
    "--write",
    "written",
    metavar="FILE",
    help=f"Where to write the calibration. [default: `judge: calibration` of evalgate.yml, else {FILE_NAME}]",
)
@click.option(
    "--fail-under-kappa",
    type=click.FloatRange(-1, 1),
    metavar="NUMBER",
    help="Exit with code 1 below this kappa.",
)
@click.option(
    "--draft",
    is_flag=True,
    help="Write LABELS as a template to fill in, from the run in --conversations, without the judge's verdicts.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Lines per criterion in a template.",
)
@click.argument("labels")
@cli.ends
def command(labels: str, **values: Any) -> int:
    """Compare the judge's verdicts with the human labels in LABELS, one JSON object per line
    (docs/calibration.md)."""
    settings = commands.settings_of(values)
    results = _path(values["conversations"]) or settings.root / settings.output / RESULTS
    if values["draft"]:
        path = Path(labels)
        if path.exists():
            raise ConfigError(f"{path} exists already", hint="Choose another file name.")
        stored = file.read_results(results)
        lines = calibration_labels.draft(stored, most=values["most"], seed=settings.seed)
        if not lines:
            raise NothingToDo(f"{os.path.relpath(results)} has no verdicts to label")
        output.save(path, [f"{line}\n" for line in lines], shown_as=str(path))
        click.echo(
            f"wrote {words.counted(len(lines), 'line')}: fill in each `label`, then `evalgate calibrate {path}`"
        )
        return ExitCode.PASS
    output_path = _path(values["written"]) or settings.root / (
        settings.gate_file.judge.calibration or FILE_NAME
    )
    calibration, answers = calibrate.calibrate(
        settings,
        Path(labels).absolute(),
        conversations=results,
        environ=os.environ,
        cache=prepare.cache_of(settings, os.environ, say=_say),
        say=_say,
    )
    cli.show_problems(answers.problems)
    click.echo(agreement.render(calibration, notes=answers.notes), nl=False)
    if answers.judge_uses:
        total = total_of(answers.judge_uses)
        calls = words.counted(total.calls, "judge call")
        cost = "" if total.cost_usd is None else f", ${total.cost_usd:.4f}"
        click.echo(f"\n{calls}, {total.cached:,} read from the cache{cost}")
    output.save(output_path, [agreement.render_file(calibration)], shown_as=str(output_path))
    click.echo(f"wrote {os.path.relpath(output_path)}")
    min_kappa = values["fail_under_kappa"]
    if min_kappa is None:
        return ExitCode.PASS
    low_criteria = [
        criterion
        for criterion in calibration.criteria
        if criterion.kappa is None or criterion.kappa.value < min_kappa
    ]
    for criterion in low_criteria:
        kappa_text = (
            "cannot be computed"
            if criterion.kappa is None
            else f"is {words.score(criterion.kappa.value, beside=min_kappa)}"
        )
        name = plain.label(criterion.criterion, 80)
        click.secho(
            f"{name}: kappa {kappa_text}; at least {words.threshold(min_kappa)} is required",
            fg="red",
            err=True,
        )
    return ExitCode.FAIL if low_criteria else ExitCode.PASS


def _say(line: str) -> None:
    click.echo(plain.one_line(line), err=True)


def _path(name: str | None) -> Path | None:
    return Path(name).absolute() if name else None
