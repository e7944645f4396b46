"""`evalgate mcp`: the server for assistants, and the lines in their files that start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from evalgate import cli, extensions
from evalgate.config import places
from evalgate.errors import ConfigError, ExitCode
from evalgate.formats import rewrite
from evalgate.wings.ces.shapes import LOCAL_APP
from .resources import ServerResources

NAME = "evalgate"
CLIENTS = {
    "claude": (".mcp.json", "mcpServers", {"type": "stdio"}),
    "gemini": (".gemini/settings.json", "mcpServers", {}),
    "cursor": (".cursor/mcp.json", "mcpServers", {"type": "stdio"}),
    "vscode": (".vscode/mcp.json", "servers", {"type": "stdio"}),
}
"""For each assistant: its file in a project, the key of its servers, and the fields of each
server."""

_OPTIONS = (
    click.option(
        "--root",
        default=".",
        type=click.Path(path_type=Path),
        help="The repository. Nothing outside is written.",
    ),
    click.option(
        "--app",
        default=LOCAL_APP,
        metavar="NAME",
        help="The app of resources without a name of their own.",
    ),
    click.option("--read-only", is_flag=True, help="Refuse every run and every change."),
    click.option(
        "--no-relaxing",
        is_flag=True,
        help="Refuse changes that may relax; they wait for a person (`evalgate ces accept`).",
    ),
)


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the server, for what starts it and for what writes its lines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group("mcp", invoke_without_command=True)
@_server_options
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="HTTP on 127.0.0.1 in place of stdio.",
)
@click.pass_context
def mcp(context: click.Context, /, **options: Any) -> None:
    """Serve CES evaluations and cases of ADK evaluation sets over the Model Context Protocol: list,
    get, preview, create, update, delete and run."""
    if context.invoked_subcommand is None:
        _serve(**options)
    sources = map(context.get_parameter_source, options)
    if any(source is not ParameterSource.DEFAULT for source in sources):
        raise click.UsageError("The options of the server go behind `install CLIENT`.")


@cli.ends
def _serve(root: Path, port: int | None, **options: Any) -> int:
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder")
    resources = ServerResources(root, **options)
    try:
        from . import server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`{error.name}` is not installed", hint=extensions.install_command("mcp")
        ) from error
    if port is None:
        server.run_stdio(resources)
    else:
        server.run_http(resources, port=port)
    return ExitCode.PASS


@mcp.command("install")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@_server_options
@click.option("--print", "only_print", is_flag=True, help="Show the file, and write nothing.")
@cli.ends
def install(client: str, root: Path, only_print: bool, **options: Any) -> int:
    """Write how CLIENT starts the server into its own file in the repository; all else in it
    stays."""
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder")
    file, key, common = CLIENTS[client]
    if reason := places.refusal_reason(root.resolve(), file):
        raise ConfigError(f"{file} {reason}")
    program = Path(sys.argv[0]).absolute()
    is_program = program.name == NAME and os.access(program, os.X_OK)
    # this evalgate, from any folder
    command = [str(program)] if is_program else [sys.executable, "-m", NAME]
    command += ["mcp", "--root", str(root.resolve())]
    command += ["--app", options["app"]] if options["app"] != LOCAL_APP else []
    command += [f"--{name.replace('_', '-')}" for name, is_on in options.items() if is_on is True]
    entry = {**common, "command": command[0], "args": command[1:]}
    path = root / file
    source = rewrite.read(path, shown_as=file) if path.exists() else None
    old_text = source.text if source else "{}\n"
    text = rewrite.put(old_text, (key, NAME), entry)
    text = text or rewrite.inserted(old_text, (key,), {NAME: entry})
    whole = rewrite.find(text or "", ())
    if text is None or whole is None or whole.value[key].get(NAME) != entry:
        lines = rewrite.inserted("{}\n", (key,), {NAME: entry})
        raise ConfigError(
            f"{file} is not JSON without comments, or `{key}` is not an object",
            hint=f"Add to it by hand: {lines}",
        )
    if only_print:
        cli.tell(text, nl=False)
    elif source is None:
        rewrite.create(path, text, root=root)
    elif source.text != text:
        rewrite.save(source, text)
    if not only_print:
        cli.tell(f"{file} has the server `{NAME}`: start {client} again.")
    return ExitCode.PASS
