"""Runs in an agent's interpreter: imports the modules that are named once, and becomes a worker
whenever it is asked. `-NAME`: a package that is as if it were not installed.

A new google-adk takes two seconds to import, an old one ten.
"""

import importlib
import os
import runpy
import sys
import warnings
from pathlib import Path

import forking

warnings.simplefilter("ignore")

for module in sys.argv[1:]:
    if module.startswith("-"):
        sys.modules[module[1:]] = None
    else:
        importlib.import_module(module)


def become(command, cwd, environment):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    if command[0] == "-P":  # -P -m MODULE
        del sys.path[0], command[:2]
        sys.argv[:] = command
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(command[0]).parent)  # as Python does it for a script
        sys.argv[:] = command
        runpy.run_path(command[0], run_name="__main__")


def main():
    try:
        become(*forking.next_request())
    except SystemExit as ended:
        forking.end(ended)
    forking.end(SystemExit())


if __name__ == "__main__":
    main()
