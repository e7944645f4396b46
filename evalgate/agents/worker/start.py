"""The file that the agent's interpreter is started with: `python start.py adk` or `python start.py python`."""

from __future__ import annotations

import sys

# Python puts this file's folder first on sys.path: off it goes before anything else is looked up there.
HERE = __file__.replace("\\", "/").rpartition("/")[0]
if sys.path and sys.path[0].replace("\\", "/") == HERE:
    del sys.path[0]

import importlib  # noqa: E402 - the line above must come first
import importlib.util  # noqa: E402 - as above

PACKAGE = "_evalgate_worker"


def load_package() -> None:
    """Make this folder importable as one private package, without any entry on sys.path."""
    spec = importlib.util.spec_from_file_location(PACKAGE, f"{HERE}/__init__.py", submodule_search_locations=[HERE])
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot read {HERE}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def main() -> int:
    """Take over the standard streams, then serve the kind of agent that the command line names."""
    load_package()
    pipe = importlib.import_module(f"{PACKAGE}.pipe").claim()
    kind = sys.argv[1]
    sys.argv[:] = ["agent"]
    host = importlib.import_module(f"{PACKAGE}.{kind}_host")
    serving = importlib.import_module(f"{PACKAGE}.serving")
    return int(serving.serve(pipe, host.Host()))


if __name__ == "__main__":
    raise SystemExit(main())
