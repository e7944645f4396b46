"""`evalgate ui`: the report's page, live, in a browser on this machine."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import click

from evalgate import cli, extensions
from evalgate.cli import commands
from evalgate.errors import ConfigError, ExitCode
from evalgate.system import loopback

SETTINGS = (
    *commands.SELECTING,
    "base",
    "tools",
    "concurrency",
    "workers",
    "skip_judged",
    "output",
    "cache",
    "isolate",
    "debug",
)


@click.command("ui")
@commands.options(*SETTINGS)
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), metavar="N", help="[default: a free one]"
)
@click.option("--read-only", is_flag=True, help="Refuse every run and every change.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@cli.ends
def ui(port: int, read_only: bool, no_open: bool, **values: Any) -> int:
    """Show the results of PATHS (default: all) in a browser, run cases, accept and edit what they
    expect, and chat with the agent. Only this machine can connect, with the address that is
    printed."""
    try:
        from . import app  # noqa: PLC0415 - an extra
        from .workspace import Workspace  # noqa: PLC0415 - takes long to load
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`{error.name}` is not installed", hint=extensions.install_command("ui")
        ) from error
    space = Workspace(commands.explicit_options(values))
    # the browser reads the address with its token from a file: anybody may list its arguments
    with (
        app.listen(port) as listening,
        tempfile.NamedTemporaryFile("w", prefix="evalgate-ui-", suffix=".html") as redirect_file,
    ):
        token = loopback.new_token()
        address = f"http://{loopback.HOST}:{listening.getsockname()[1]}/?token={token}"
        cli.tell(f"{address}\n(Ctrl-C ends it)")
        if not no_open and sys.stdout.isatty():
            redirect_file.write(f'<meta http-equiv="refresh" content="0; url={address}">')
            redirect_file.flush()
            webbrowser.open(Path(redirect_file.name).as_uri())
        try:
            app.serve(space, listening, token=token, read_only=read_only)
        finally:
            space.close()
    return ExitCode.PASS
