"""`evalgate mcp`: the server for assistants."""

from __future__ import annotations

from pathlib import Path

import click

from evalgate import cli
from evalgate.errors import ConfigError, ExitCode
from evalgate.system import extras
from evalgate.wings.ces.mcp.resources import Resources
from evalgate.wings.ces.read import LOCAL_APP


@click.command("mcp")
@click.option(
    "--root",
    default=".",
    type=click.Path(path_type=Path),
    help="The repository. Nothing outside is written.",
)
@click.option(
    "--app",
    default=LOCAL_APP,
    metavar="NAME",
    help="The app of resources without a name of their own.",
)
@click.option("--read-only", is_flag=True, help="Refuse every run and every change.")
@click.option(
    "--no-relaxing",
    is_flag=True,
    help="Refuse changes that may relax; they wait for a person (`evalgate ces accept`).",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="HTTP on 127.0.0.1 in place of stdio.",
)
@cli.ends
def mcp(root: Path, app: str, read_only: bool, no_relaxing: bool, port: int | None) -> int:
    """Serve CES evaluations and cases of ADK evaluation sets over the Model Context Protocol: list,
    get, preview, create, update, delete and run."""
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder")
    resources = Resources(root, app=app, read_only=read_only, no_relaxing=no_relaxing)
    try:
        from evalgate.wings.ces.mcp import server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`{error.name}` is not installed", hint=extras.install_command("mcp")
        ) from error
    if port is None:
        server.run_stdio(resources)
    else:
        server.run_http(resources, port=port)
    return ExitCode.PASS
