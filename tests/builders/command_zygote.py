"""Runs as a child of pytest: imports the command's modules once, and becomes `evalgate`, or a
script that imports it, whenever it is asked.

Its standard output and error are pipes, as most commands' are here: Python made `sys.stdout` and
`sys.stderr` for such. In a terminal, they are made anew."""

import importlib
import os
import pkgutil
import runpy
import sys
import time
from pathlib import Path

import certificates
import forking
import inotify_simple
import simulated

import evalgate
from evalgate import cli
from evalgate.comparison import compare
from evalgate.criteria import response_match
from evalgate.reports import comment, html_report, phrases
from evalgate.system import git

# what runs import when they come to need it: what takes long, else a hundred runs load it a hundred
# times
LATE = (
    "genai_prices",
    "google.auth.transport.requests",
    "google.genai",
    "jinja2.sandbox",
    "requests",
)
# the agent's interpreter is its place; it runs the command; no forked test starts this server,
# which takes half a load
NEVER = ("evalgate.worker", "evalgate.__main__", "evalgate.wings.assistant")


def preload():
    """All that a command of ours could come to import, but what it takes care never to import whole
    (nltk)."""
    for module in pkgutil.walk_packages(evalgate.__path__, "evalgate."):
        if not module.name.startswith(NEVER):
            importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    # what is made once in a process
    response_match._stemmer()
    inotify_simple.INotify().close()
    for template in (phrases._TEMPLATE, html_report._TEMPLATE, comment._TEMPLATE):
        template.macros  # noqa: B018 - loads it
    for name in ("report.css", *html_report.SCRIPTS):
        html_report._source(name)
    git.git_environment(os.environ)
    simulated.few(compare.FEWEST_TRIES)
    certificates.keep()
    certificates.load()


def become(command, cwd, environment):
    """The state in which Python hands over to the console script."""
    # what starts a run of `evalgate ui`
    sys.executable = environment.pop("ITS_PYTHON", sys.executable)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.argv[:] = command
    if command[0] != "-P":
        sys.path[0] = str(Path(command[0]).parent)
    if os.isatty(1):
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors=stream.errors, buffering=1, closefd=False)  # noqa: SIM115 - they stay open
            for number, mode, stream in (
                (0, "r", sys.stdin),
                (1, "w", sys.stdout),
                (2, "w", sys.stderr),
            )
        )


def main():
    preload()
    become(*forking.next_request())
    try:
        if sys.argv[0] == "-P":  # -P -m MODULE
            del sys.argv[:2]
            sys.exit(importlib.import_module(sys.argv[0]).main())
        if sys.argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            cli.main()
    except SystemExit as ended:
        forking.end(ended)


if __name__ == "__main__":
    main()
