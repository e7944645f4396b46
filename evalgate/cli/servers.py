"""`evalgate ui` and `evalgate mcp`: the report's page, live, in a browser on this machine; tools for an assistant."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.ces.read import LOCAL_APP
from evalgate.cli import commands
from evalgate.errors import ConfigError, ExitCode
from evalgate.gate.resources import Resources
from evalgate.system import loopback
from evalgate.text import plain

SETTINGS = (
    *("root", "config", "criteria", "agent", "grep", "python", "requirements", "env", "runs", "base", "tools"),
    *("concurrency", "workers", "skip_judged", "output", "cache", "isolate", "debug"),
)


@click.command("ui")
@commands.options(*SETTINGS)
@click.option("--port", default=0, type=click.IntRange(0, 65535), metavar="N", help="[default: a free one]")
@click.option("--read-only", is_flag=True, help="Refuse every run and every change.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@cli.ends
def ui(port: int, read_only: bool, no_open: bool, **values: Any) -> int:
    """Show the results of PATHS (default: all) in a browser, run cases, accept and edit what they expect, and chat with
    the agent. Only this machine can connect, with the address that is printed."""
    try:
        from evalgate.ui import app  # noqa: PLC0415 - an extra
        from evalgate.ui.workspace import Workspace  # noqa: PLC0415 - takes long to load
    except ModuleNotFoundError as error:
        raise ConfigError(f"`{error.name}` is not installed", hint="pip install 'evalgate-action[ui]'") from error
    space = Workspace(commands.given(values))
    with app.listen(port) as listening:
        token = loopback.new_token()
        address = f"http://{loopback.HOST}:{listening.getsockname()[1]}/?token={token}"
        click.echo(plain.visible(f"{address}\n(Ctrl-C ends it)"))
        if not no_open and sys.stdout.isatty():
            webbrowser.open(address)
        try:
            app.serve(space, listening, token=token, read_only=read_only)
        finally:
            space.close()
    return ExitCode.PASS


@click.command("mcp")
@click.option(
    "--root", default=".", type=click.Path(path_type=Path), help="The repository. Nothing outside is written."
)
@click.option("--app", default=LOCAL_APP, metavar="NAME", help="The app of resources without a name of their own.")
@click.option("--read-only", is_flag=True, help="Refuse every run and every change.")
@click.option("--no-relaxing", is_flag=True, help="Refuse every change after which less is asked or expected.")
@click.option(
    "--http", "port", type=click.IntRange(1, 65535), metavar="PORT", help="HTTP on 127.0.0.1 in place of stdio."
)
@cli.ends
def mcp(root: Path, app: str, read_only: bool, no_relaxing: bool, port: int | None) -> int:
    """Serve CES evaluations and cases of ADK evaluation sets over the Model Context Protocol: list, get, preview,
    create, update, delete and run."""
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder")
    resources = Resources(root, app=app, read_only=read_only, no_relaxing=no_relaxing)
    try:
        from evalgate.mcp import server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(f"`{error.name}` is not installed", hint="pip install 'evalgate-action[mcp]'") from error
    if port is None:
        server.run_stdio(resources)
    else:
        server.run_http(resources, port=port)
    return ExitCode.PASS
