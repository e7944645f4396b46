"""Writes what stands in several places from where it stands once: both action.yml, tables of
settings, criteria and reports, the picture of the rooms, the messages of CES, and the JSON schemas
of the files that we write and of those that people write.

`make docs` rewrites the files; a test fails where they differ from what this module makes.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import ces_shapes
import picture
import schemas

from evalgate import agents, config, criteria, reports
from evalgate.config import Decider, Door, settings, variables
from evalgate.config.settings import Settings
from evalgate.criteria.base import CriterionSpec
from evalgate.model import Need
from evalgate.results import file, history
from evalgate.wings.author import starter
from evalgate.wings.calibrate import agreement
from evalgate.wings.ces import shapes
from evalgate.wings.ces.shapes import Handling

ROOT = Path(__file__).resolve().parents[1]
COMPOSITE = ROOT / "gate" / "action.yml"

ACTION_HEAD = """\
# {written}
name: {name}
description: A gate for pull requests on LLM agents. Runs ADK evaluation files, scores them and reports regressions.
author: evalgate contributors
branding:
  icon: check-square
  color: blue
"""
WRITTEN = "Written by `make docs` from evalgate/config/settings.py: change it there."

ACTION_TAIL = """\
runs:
  using: docker
  image: Dockerfile
"""

OUTPUTS: Mapping[str, str] = {
    "verdict": "`pass`, `fail`, `inconclusive` or `not_measured`; `error` if there is no verdict.",
    "reason": "The verdict, or the error, in one sentence.",
    "exit-code": "0 pass, 1 fail, 2 invalid files or inputs, 3 not measured, 4 nothing to run.",
    "total": "Number of cases.",
    "passed": "Number of cases that passed.",
    "failed": "Number of cases that failed, flaky and quarantined ones aside.",
    "flaky": "Number of cases that failed or crashed in their first runs, which reruns did not confirm.",
    "quarantined": "Number of quarantined cases, however they ended.",
    "inconclusive": "Number of cases that a budget kept from running.",
    "not-measured": "Number of cases that were not measured. These six add up to `total`.",
    "scores": "A JSON object: the mean of each criterion over all cases with a value, null if there is none.",
    "judge-calls": "Number of judge calls, without cached replies.",
    "judge-cost-usd": "Cost of these calls in US dollars; empty if any price is unknown.",
    "delta": "A JSON object: head's mean minus the base's of each criterion (cases that decide); `{}` without a comparison.",
    "relaxed": "The rules by which alone the change passes, if the base's rules would not let it; else empty.",
    "evidence": "How sure it is that head is worse: what bets on it made of 1; 20 blocks (docs/statistics.md).",
    **{row.name: f"Path of {row.file_name}: {row.summary}." for row in reports.RENDERERS.values()},
    "results": "Path of results.json, with all results; relative to the workspace like all paths.",
    "base": "Path of base.json, the base's results; empty without a comparison.",
}
"""What `evalgate.action` writes to GITHUB_OUTPUT; a test runs it and compares."""

SECRETS: Mapping[str, tuple[str, str]] = {
    "github-token": (
        "The token for the comment and the check run.\nThe agent never sees it.",
        "${{ github.token }}",
    ),
    "store-key": (
        "A secret that signs what runs keep for later runs.\nThe agent never sees it. Or give `id-token: write`.",
        "",
    ),
}
"""Inputs that are no settings, because no file and no command line may hold them: description and
default."""


def render_action() -> str:
    """The whole of action.yml.

    No setting has a default there: an empty input means "not given", so that evalgate.yml can
    speak."""
    head = ACTION_HEAD.format(written=WRITTEN, name="evalgate")
    return head + render_inputs() + block("outputs", OUTPUTS) + ACTION_TAIL


def render_composite(page: str) -> str:
    """gate/action.yml: the same inputs and outputs before the steps, which stand there, and the
    inputs as variables of the step that runs the gate."""
    head = ACTION_HEAD.format(
        written=f"{WRITTEN} The steps stand here alone.", name="evalgate gate"
    )
    values = {name: f"${{{{ steps.gate.outputs.{name} }}}}" for name in OUTPUTS}
    given = "".join(
        f"        INPUT_{name.upper()}: ${{{{ inputs.{name} }}}}\n" for name in all_inputs()
    )
    runs = page[page.index("\nruns:\n") + 1 :]
    runs = re.sub(
        r"(?s)(# <inputs>\n).*?( *# </inputs>\n)", lambda found: found[1] + given + found[2], runs
    )
    return head + render_inputs() + block("outputs", OUTPUTS, values=values) + runs


def all_inputs() -> list[str]:
    """Names of the inputs, in the order of the table."""
    return [*map(settings.input_name, action_settings()), *SECRETS]


def render_inputs() -> str:
    """The inputs of both actions."""
    inputs = {settings.input_name(name): described(name) for name in action_settings()}
    return block("inputs", inputs, required=True) + secret_inputs()


EXAMPLE_HEAD = (
    "# Copy to .github/workflows/evalgate.yml. Replace OWNER by the owner of the repository that you take the action "
    "from.\n"
)


def render_workflow() -> str:
    """The README's workflow, which `evalgate init` writes as well."""
    return f"```yaml\n# {starter.WORKFLOW}; OWNER is the publisher of the action\n{starter.template()}```\n"


def render_outputs_table() -> str:
    """The table of outputs in docs/action.md. docs/reports.md has the files of reports."""
    rows = ["| Output | Content |", "| --- | --- |"]
    rows.extend(
        f"| `{name}` | {cell(text)} |"
        for name, text in OUTPUTS.items()
        if name not in reports.RENDERERS
    )
    names = ", ".join(f"`{name}`" for name in reports.RENDERERS)
    rows.append(f"| {names} | Paths of the [files of reports](reports.md). |")
    return "\n".join(rows) + "\n"


def render_settings_table() -> str:
    """The table of docs/settings.md: every setting, where it can be given, and whose evalgate.yml
    counts."""
    rows = [
        "| Setting | Default | Command line | Workflow | evalgate.yml | In a pull request | What it does |"
    ]
    rows.append("| --- | --- | :-: | :-: | :-: | --- | --- |")
    for name in settings.NAMES:
        given = " | ".join(
            "yes" if name in config.names_with(Settings, door) else "" for door in Door
        )
        given += f" | {whose_file(name)}"
        default = default_text(name)
        shown = f"`{default}`" if default else ""
        rows.append(
            f"| `{settings.input_name(name)}` | {shown} | {given} | {cell(description_of(name))} |"
        )
    return "\n".join(rows) + "\n"


def whose_file(name: str) -> str:
    """Whose evalgate.yml counts in a pull request; "" for what none can hold."""
    if name not in config.names_with(Settings, Door.FILE):
        return ""
    return WHOSE[config.fact(Settings.model_fields[name], Decider)]


WHOSE: Mapping[Decider, str] = {
    Decider.DOOR: "base",
    Decider.BASE: "base",
    Decider.EITHER: "both",
    Decider.HEAD: "head",
}


NEEDS: Mapping[Need, str] = {
    Need.JUDGE: "judge",
    Need.VERTEX: "Google Cloud, or a judge",
    Need.REFERENCE: "reference",
    Need.RUBRICS: "rubrics",
    Need.SCENARIO: "scenario",
}


def render_criteria_table() -> str:
    """The table of docs/criteria/README.md: those that decide, custom metrics, those that only
    inform."""
    rows = ["| criterion | scale | needs | measures |", "|---|---|---|---|"]
    for spec in sorted(
        (*criteria.CRITERIA.values(), criteria.CUSTOM), key=lambda spec: spec.informational
    ):
        needs = ", ".join(text for need, text in NEEDS.items() if need in spec.needs)
        rows.append(
            f"| [{spec.name}]({spec.name}.md) | {scale_of(spec)} | {needs} | {cell(spec.summary)} |"
        )
    return "\n".join(rows) + "\n"


def scale_of(spec: CriterionSpec) -> str:
    """The ends of a criterion's scale, in words."""
    if spec.informational:
        return "informs"
    ends = (spec.scale.lowest, spec.scale.highest)
    return "its own" if None in ends else f"{ends[0]:g} to {ends[1]:g}"


def render_reports_table() -> str:
    """The table of docs/reports.md: the files that a run writes for its readers."""
    rows = ["| File | Content |", "|:--|:--|"]
    rows.extend(
        f"| `{row.file_name}` | {cell(row.summary)} |" for row in reports.RENDERERS.values()
    )
    return "\n".join(rows) + "\n"


def render_frameworks_table() -> str:
    """The table of docs/agents/frameworks.md: a driver, its package, the versions that it is made
    for."""
    rows = ["| Driver | Agents | Package |", "|:--|:--|:--|"]
    for name, driver in agents.DRIVERS.items():
        if getattr(driver, "framework", ""):
            host = importlib.import_module(
                f"evalgate.wings.frameworks.worker.{name.replace('-', '_')}"
            ).Host
            told = cell(driver.__doc__ or "")
            rows.append(
                f"| [{name}]({name}.md) | {told} | `{host.package}>={host.low},<{host.high}` |"
            )
    return "\n".join(rows) + "\n"


def render_variables_table() -> str:
    """The table of docs/action.md: what agents get without naming it."""
    rows = ["| Provider | Keys and settings | Addresses |", "|:--|:--|:--|"]
    for name, provider in variables.PROVIDERS.items():
        cells = (
            ", ".join(f"`{each}`" for each in names)
            for names in ((*provider.keys, *provider.settings), provider.endpoints)
        )
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def render_ces_fields() -> str:
    """The tables of docs/ces.md: what becomes of every field and of every value of an enum."""
    members = [
        each
        for each in vars(shapes).values()
        if isinstance(each, type) and each.__module__ == shapes.__name__
    ]
    messages = [
        each
        for each in members
        if issubclass(each, shapes.Proto) and each.model_fields and each.__doc__
    ]
    fields: dict[str, dict[Handling, list[str]]] = {}
    of_enums: dict[type[shapes.ProtoEnum], set[Handling]] = {}
    for shape in sorted(messages, key=lambda each: each.__doc__ or ""):
        row = fields.setdefault((shape.__doc__ or "").rstrip("."), {each: [] for each in Handling})
        for name in shape.model_fields:
            field = shapes.fields_of(shape)[name]
            row[field.handling].append(f"`{field.key}`")
            for values in enums_in(shape.model_fields[name].annotation):
                of_enums.setdefault(values, set()).add(field.handling)
    values_of: dict[str, dict[Handling, list[str]]] = {}
    for values, handlings in sorted(of_enums.items(), key=lambda each: each[0].__doc__ or ""):
        row = values_of.setdefault(
            (values.__doc__ or "").rstrip("."), {each: [] for each in Handling}
        )
        usual = next(each for each in Handling if each in handlings)
        for value in values:
            is_not_run = value is shapes.SemanticSimilarityChannel.AUDIO
            row[Handling.NOT_RUN if is_not_run else usual].append(f"`{value.name}`")
    return (
        "\n".join((*handling_table("Message", fields), "", *handling_table("Enum", values_of)))
        + "\n"
    )


def enums_in(annotation: Any) -> Iterator[type[shapes.ProtoEnum]]:
    """The enums in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, shapes.ProtoEnum):
        yield annotation
    for inner in get_args(annotation):
        yield from enums_in(inner)


def handling_table(title: str, rows: Mapping[str, Mapping[Handling, list[str]]]) -> Iterator[str]:
    """A row per name; names whose parts are all handled alike share one."""
    yield f"| {title} | " + " | ".join(each.value for each in Handling) + " |"
    yield "|" + " --- |" * (1 + len(Handling))
    shared: dict[Handling, list[str]] = {}
    for name, row in rows.items():
        used = [each for each in Handling if row[each]]
        if len(used) == 1:
            shared.setdefault(used[0], []).append(f"`{name}`")
        else:
            yield f"| `{name}` | " + " | ".join(map(", ".join, row.values())) + " |"
    for handling, names in shared.items():
        cells = ("all" if each is handling else "" for each in Handling)
        yield f"| {', '.join(names)} | " + " | ".join(cells) + " |"


def render_entry_points() -> str:
    """Our own entry points, as an installed package has them; of pyproject.toml, for copies that
    are not installed."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "entry-points"
    ]
    lines = (
        "\n".join((f"[{group}]", *(f"{name} = {value}" for name, value in rows.items())))
        for group, rows in groups.items()
    )
    return "\n\n".join(lines) + "\n"


def documents() -> dict[Path, str]:
    """Every generated file with the text it should have."""
    pages: Mapping[str, Mapping[str, str]] = {
        "README.md": {"workflow": render_workflow()},
        "docs/action.md": {
            "variables": render_variables_table(),
            "outputs": render_outputs_table(),
        },
        "docs/settings.md": {"settings": render_settings_table()},
        "docs/criteria/README.md": {"criteria": render_criteria_table()},
        "docs/ces.md": {"fields": render_ces_fields()},
        "docs/reports.md": {"reports": render_reports_table()},
        "docs/agents/frameworks.md": {"frameworks": render_frameworks_table()},
    }
    return {
        ROOT / "action.yml": render_action(),
        COMPOSITE: render_composite(COMPOSITE.read_text(encoding="utf-8")),
        ROOT / "examples" / "workflows" / "minimal.yml": EXAMPLE_HEAD + starter.template(),
        ROOT / "docs" / "images" / "rooms.svg": picture.render(),
        **ces_shapes.render(),
        ROOT / "evalgate" / "entry_points.txt": render_entry_points(),
        ROOT / "docs" / "results.schema.json": json.dumps(schemas.of_ours(file.schema()), indent=2)
        + "\n",
        ROOT / "docs" / "history.schema.json": json.dumps(
            schemas.of_ours(history.schema()), indent=2
        )
        + "\n",
        ROOT / "docs" / "calibration.schema.json": json.dumps(
            schemas.of_ours(agreement.schema()), indent=2
        )
        + "\n",
        ROOT / "docs" / "evalgate.schema.json": json.dumps(schemas.gate_file(), indent=2) + "\n",
        ROOT / "docs" / "test_config.schema.json": json.dumps(schemas.test_config(), indent=2)
        + "\n",
        ROOT / "docs" / "evalset.schema.json": json.dumps(schemas.eval_set(), indent=2) + "\n",
        **{
            ROOT / page: filled((ROOT / page).read_text(encoding="utf-8"), tables)
            for page, tables in pages.items()
        },
    }


def action_settings() -> list[str]:
    """Names of the settings that a workflow can give, in the order of the table."""
    return [*config.names_with(Settings, Door.ACTION)]


def description_of(name: str) -> str:
    """A setting's description, on one line."""
    return " ".join((Settings.model_fields[name].description or "").split())


def described(name: str) -> str:
    """Description and default in one text."""
    default = default_text(name)
    return f"{description_of(name)} Default: `{default}`." if default else description_of(name)


def default_text(name: str) -> str:
    """A default as a workflow would write it; "" where there is none."""
    value: Any = Settings.model_fields[name].default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def block(
    title: str,
    texts: Mapping[str, str],
    *,
    required: bool = False,
    values: Mapping[str, str] | None = None,
) -> str:
    """A YAML mapping of names to folded descriptions."""
    lines = [f"{title}:"]
    for name, text in texts.items():
        lines.append(f"  {name}:")
        lines.append("    description: >-")
        lines.extend(textwrap.wrap(text, 112, initial_indent=" " * 6, subsequent_indent=" " * 6))
        if required:
            lines.append("    required: false")
        if values:
            lines.append(f"    value: {values[name]}")
    return "\n".join(lines) + "\n"


def secret_inputs() -> str:
    """The further inputs, with their defaults."""
    return "".join(
        block("inputs", {name: text}, required=True).removeprefix("inputs:\n")
        + (f"    default: {default}\n" if default else "")
        for name, (text, default) in SECRETS.items()
    )


def cell(text: str) -> str:
    """Text for a table cell."""
    return text.replace("|", "\\|")


def filled(page: str, tables: Mapping[str, str]) -> str:
    """The page with each `<!-- NAME -->` .. `<!-- /NAME -->` holding its table. A missing place is
    an error."""
    for name, table in tables.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page, count = place.subn(lambda found, table=table: found[1] + table + found[2], page)  # type: ignore[misc]
        if count != 1:
            raise SystemExit(f"expected one <!-- {name} --> in the page, found {count}")
    return page


def main() -> int:
    """Write what differs."""
    for path, text in documents().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
