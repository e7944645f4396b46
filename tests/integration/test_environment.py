"""Environments for agents made with the real uv from packages in a local folder: no network."""

from __future__ import annotations

import os
import py_compile
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uv
from builders.nightly import NIGHTLY
from builders.packages import MINOR, VERSION, index, mirror, wheel

from evalgate.system import process, python_env, seals
from evalgate.system.python_env import EnvironmentRequest, InstallFailed, InstallSetup
from evalgate.system.seals import Seals

pytestmark = pytest.mark.integration


class Place:
    """A checkout with an agent's folder, a folder of wheels and a cache."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "checkout"
        self.agent = self.root / "agents" / "weather"
        self.agent.mkdir(parents=True)
        self.cache = tmp_path / "cache"
        self.wheels = tmp_path / "wheels"
        wheel(self.wheels, "sunshine", "1.0")
        wheel(self.wheels, "sunshine", "2.0")
        self.log: list[str] = []
        kept = ("PATH", "HOME", "LANG")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.installers = {
            **self.environment,
            "UV_DEFAULT_INDEX": f"file://{index(self.wheels)}",
            "UV_COMPILE_BYTECODE": "0",
            "UV_CACHE_DIR": str(tmp_path / "uv"),
        }

    def provide(self, **wanted) -> python_env.Interpreter:
        given = {"folder": self.agent, "root": self.root, **wanted}
        return python_env.provide(EnvironmentRequest(**given), self.world())

    def world(self, key: bytes = b"") -> InstallSetup:
        """That of another run."""
        return InstallSetup(
            environment=self.environment,
            install_environment=self.installers,
            cache=str(self.cache),
            log=self.log.append,
            seals=Seals(key=key),
        )

    def version(self, python: str) -> str:
        code = "import sunshine; print(sunshine.VERSION)"
        return subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()

    def tree(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def project(dependency: str) -> str:
    return f'[project]\nname = "weather"\nversion = "0"\nrequires-python = ">=3.10"\ndependencies = ["{dependency}"]\n'


def test_requirements_beside_the_agent_are_installed_once(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    before = place.tree()
    first = place.provide()
    assert place.version(first.python) == "1.0"
    assert any("installing" in line for line in place.log)
    place.log.clear()
    assert place.provide().python == first.python
    assert place.log == []  # from the cache: nothing to tell
    assert place.tree() == before  # the checkout is not touched


def test_changed_requirements_make_another_environment(place: Place) -> None:
    (place.root / "requirements.txt").write_text("-r more/base.txt\n")
    (place.root / "more").mkdir()
    (place.root / "more" / "base.txt").write_text("sunshine==1.0\n")
    first = place.provide()
    (place.root / "more" / "base.txt").write_text("sunshine==2.0\n")
    second = place.provide()
    assert (place.version(first.python), place.version(second.python)) == ("1.0", "2.0")


LOCAL_BACKEND = """
import os, pathlib, zipfile
def get_requires_for_build_wheel(config_settings=None): return []
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "sunshine-3.dist-info/"
    files = {"sunshine.py": pathlib.Path("sunshine.py").read_text()}
    files[info + "WHEEL"] = "Wheel-Version: 1.0\\nTag: py3-none-any\\n"
    files[info + "METADATA"] = "Metadata-Version: 2.1\\nName: sunshine\\nVersion: 3\\n"
    files[info + "RECORD"] = "".join(f"{name},,\\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "sunshine-3-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items(): wheel.writestr(name, text)
    return "sunshine-3-py3-none-any.whl"
build_editable = build_wheel
"""
IN_TREE = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "sunshine"
version = "3"
"""


@pytest.mark.parametrize("kind", ["requirements.txt", "pyproject.toml", "uv.lock"])
def test_a_changed_local_package_makes_another_environment(place: Place, kind: str) -> None:
    lib = place.root / "lib"
    lib.mkdir()
    files = {
        "pyproject.toml": IN_TREE,
        "backend.py": LOCAL_BACKEND,
        "sunshine.py": "VERSION = 'right'\n",
    }
    for name, text in files.items():
        (lib / name).write_text(text)
    if kind == "requirements.txt":
        (place.root / kind).write_text("./lib\n")
    else:
        source = '\n[tool.uv.sources]\nsunshine = { path = "lib" }\n'
        (place.root / "pyproject.toml").write_text(project("sunshine") + source)
    if kind == "uv.lock":
        subprocess.run(
            [uv.find_uv_bin(), "lock", "--quiet"], cwd=place.root, env=place.installers, check=True
        )
    first = place.provide()
    (lib / "sunshine.py").write_text("VERSION = 'totally wrong'\n")
    second = place.provide()
    assert [place.version(each.python) for each in (first, second)] == ["right", "totally wrong"]
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_member_of_the_workspace_is_imported_from_the_checkout(
    place: Place, is_locked: bool
) -> None:
    (place.root / "pyproject.toml").write_text(
        "[tool.uv.workspace]\nmembers = ['agents/*', 'lib']\n"
    )
    source = "\n[tool.uv.sources]\nsunshine = { workspace = true }\n"
    (place.agent / "pyproject.toml").write_text(project("sunshine") + source)
    files = {"pyproject.toml": IN_TREE, "backend.py": LOCAL_BACKEND, "sunshine.py": ""}
    for name, text in files.items():
        (place.root / "lib").mkdir(exist_ok=True)
        (place.root / "lib" / name).write_text(text)
    if is_locked:
        lock = [uv.find_uv_bin(), "lock", "--quiet"]
        subprocess.run(lock, cwd=place.root, env=place.installers, check=True)
    found = place.provide()
    assert str(place.root / "lib") in found.import_roots


def test_the_nearest_file_wins_and_the_project_stays_uninstalled(place: Place) -> None:
    (place.root / "requirements.txt").write_text("sunshine==1.0\n")
    (place.agent / "pyproject.toml").write_text(project("sunshine==2.0"))
    before = place.tree()
    found = place.provide()
    assert place.version(found.python) == "2.0"
    assert str(place.agent) in found.import_roots
    assert place.tree() == before


def test_a_pyproject_of_tool_settings_says_nothing(place: Place) -> None:
    (place.agent / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    (place.root / "requirements.txt").write_text("sunshine==1.0\n")
    assert place.version(place.provide().python) == "1.0"


def test_a_lock_file_is_followed_without_being_updated(place: Place) -> None:
    (place.root / "pyproject.toml").write_text(project("sunshine<2"))
    subprocess.run(
        [uv.find_uv_bin(), "lock", "--quiet"], cwd=place.root, env=place.installers, check=True
    )
    # The lock says 1.0; the project would now take 2.0, and what is locked counts.
    (place.root / "pyproject.toml").write_text(project("sunshine"))
    before = place.tree(), (place.root / "uv.lock").read_text()
    found = place.provide()
    assert place.version(found.python) == "1.0"
    assert (place.tree(), (place.root / "uv.lock").read_text()) == before


def test_named_requirements_go_before_files_and_take_specifiers(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    assert place.version(place.provide(requirements=["sunshine>=2"]).python) == "2.0"


def test_a_named_python_is_taken_as_it_is(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    assert place.provide(python=sys.executable).python == sys.executable
    assert not place.cache.exists()


def test_a_failed_install_speaks_in_the_installers_words_and_is_tried_again(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("no-such-package-anywhere==9\n")
    with pytest.raises(InstallFailed) as caught:
        place.provide()
    assert "agents/weather/requirements.txt" in caught.value.message
    assert "no-such-package-anywhere" in caught.value.detail
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    assert place.version(place.provide().python) == "1.0"


def test_packages_that_need_another_python_choose_it(place: Place) -> None:
    wheel(place.wheels, "dawn", "1.0", requires="Requires-Python: >=3.99\n")
    index(place.wheels)
    (place.agent / "requirements.txt").write_text("dawn\n")
    with pytest.raises(InstallFailed) as caught:
        place.provide(python=MINOR)
    needed = "packages of agents/weather/requirements.txt"
    assert caught.value.message.startswith(
        f'no Python fits `python: "{MINOR}"` (as configured) and {needed}'
    )


def test_passwords_of_an_index_are_not_shown(place: Place) -> None:
    place.installers |= {
        "UV_DEFAULT_INDEX": "http://user:very-secret-word@127.0.0.1:9/simple",
        "UV_HTTP_RETRIES": "0",
    }
    (place.agent / "requirements.txt").write_text("moonlight\n")
    with pytest.raises(InstallFailed) as caught:
        place.provide()
    assert "127.0.0.1:9" in caught.value.detail
    assert "very-secret-word" not in caught.value.detail + caught.value.message


def test_an_interrupted_install_is_made_anew(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    folder = Path(place.provide().python).parent.parent
    # as a kill before the last step leaves it
    (folder.parent / "sealed" / f"{folder.name}.json").unlink()
    shutil.rmtree(folder / "lib")
    assert place.version(place.provide().python) == "1.0"


KEY = b"a key that no agent sees"
SITE = f"lib/python3.{sys.version_info.minor}/site-packages"
EVIL = "import builtins; builtins.evil = True\n"


def relink(path: Path) -> None:
    """A program in place of another that starts the same Python with code of its own."""
    path.unlink()
    path.write_text(f"#!/bin/sh\nexec {Path(sys.executable).resolve()} -c 'print(\"evil\")'\n")
    path.chmod(0o755)


LEAVINGS: dict[str, Callable[[Path], object]] = {
    "sitecustomize.py": lambda env: (env / SITE / "sitecustomize.py").write_text(EVIL),
    "evil.pth": lambda env: (env / SITE / "evil.pth").write_text(EVIL),
    # through whatever other name the file may have, as in uv's cache
    "sunshine.py": lambda env: (env / SITE / "sunshine.py").write_text(f"{EVIL}VERSION = 'evil'\n"),
    "bin/python": lambda env: relink(env / "bin" / "python"),
    "bin/git": lambda env: relink_new(env / "bin" / "git"),
    "sunshine.cpython": lambda env: compile_evil(env / SITE),
}


def relink_new(path: Path) -> None:
    path.touch()
    relink(path)


def compile_evil(site: Path) -> None:
    """Bytecode in place of that of a module, which Python believes by the size and time of the
    source in it."""
    (module,) = site.glob("sunshine.py")
    honest, status = module.read_text(), module.stat()
    (cached,) = site.glob("__pycache__/sunshine.*.pyc")
    module.write_text(f"{EVIL}VERSION = 'evil'\n".ljust(status.st_size))
    py_compile.compile(str(module), cfile=str(cached), doraise=True)
    data = cached.read_bytes()
    module.write_text(honest)
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    times = int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
    cached.write_bytes(data[:8] + times + data[16:])


@pytest.mark.parametrize(("variable", "count"), [("1", 1), ("", 0)])
def test_modules_are_compiled_where_the_agent_cannot_keep_what_it_compiles(
    place: Place, variable: str, count: int
) -> None:
    """As for Python, a variable without a value is none."""
    del place.installers["UV_COMPILE_BYTECODE"]
    place.environment["PYTHONDONTWRITEBYTECODE"] = variable
    python = place.provide(requirements=("sunshine==1.0",)).python
    assert len([*Path(python).parents[1].rglob("sunshine.*.pyc")]) == count


@pytest.mark.parametrize(
    ("path", "key"),
    [
        *((path, KEY) for path in LEAVINGS),
        *((path, b"") for path in (LEAVINGS if NIGHTLY else ("sunshine.py",))),
    ],
)
def test_what_an_earlier_commit_left_in_an_environment_is_never_run(
    place: Place, path: str, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.installers["UV_COMPILE_BYTECODE"] = "1"
    wanted = EnvironmentRequest(
        folder=place.agent, root=place.root, requirements=("sunshine==1.0",)
    )
    python = python_env.provide(wanted, place.world(key)).python
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import builtins, sunshine; print(getattr(builtins, 'evil', False), sunshine.VERSION)"
    command = [python, "-c", code]
    folder = Path(python).parent.parent
    LEAVINGS[path](folder)
    # some systems have one of their own, which Python finds first
    if path not in ("bin/git", "sitecustomize.py"):
        assert "evil" in subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.replace("True", "evil")
    place.log.clear()
    assert python_env.provide(wanted, place.world(key)).python == python
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "1.0",
    ]
    assert not (folder / "bin" / "git").exists()
    (told,) = [
        line
        for line in place.log
        if line.startswith(f"the environment {folder.name} differs from what was")
    ]
    assert path in told
    assert told.endswith("): making it again")
    place.log.clear()
    python_env.provide(wanted, place.world(key))
    assert place.log == [], "it is sealed again"


def test_an_environment_that_somebody_without_the_key_sealed_is_made_again(place: Place) -> None:
    wanted = EnvironmentRequest(
        folder=place.agent, root=place.root, requirements=("sunshine==1.0",)
    )
    folder = Path(python_env.provide(wanted, place.world(KEY)).python).parent.parent
    # without a key of its own a gate believes what a gate with one has sealed
    for key, count in ((b"", 0), (KEY, 0)):
        place.log.clear()
        python_env.provide(wanted, place.world(key))
        assert len(place.log) == count
    (folder / SITE / "sitecustomize.py").write_text(EVIL)
    seals.write(folder, key=b"", note="")
    python_env.provide(wanted, place.world(KEY))
    assert f"the environment {folder.name} {seals.NO_SEAL}: making it again" in place.log
    assert not (folder / SITE / "sitecustomize.py").exists()


def test_a_run_of_an_agent_leaves_its_environment_as_it_was(place: Place) -> None:
    """Python writes bytecode where the installer was told to write none."""
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    first = place.provide()
    subprocess.run([first.python, "-c", "import sunshine"], env={}, check=True)
    (written,) = (Path(first.python).parents[1] / SITE).glob("__pycache__/sunshine.*")
    place.log.clear()
    place.provide()
    assert (place.log, written.exists()) == ([], False)


def test_an_environment_is_compared_once_a_run(place: Place) -> None:
    """Agents of the run may be at work in it."""
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    wanted, world = EnvironmentRequest(folder=place.agent, root=place.root), place.world()
    folder = Path(python_env.provide(wanted, world).python).parents[1]
    (folder / SITE / "data.db").touch()
    place.log.clear()
    python_env.provide(wanted, world)
    assert place.log == []
    shutil.rmtree(folder)
    python_env.provide(wanted, world)  # another gate makes it again
    assert (folder / "bin" / "python").exists()


def test_an_installation_that_fails_leaves_no_environment_that_a_later_agent_of_the_run_takes(
    place: Place,
) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    wanted, world = EnvironmentRequest(folder=place.agent, root=place.root), place.world()
    folder = Path(python_env.provide(wanted, world).python).parents[1]
    shutil.rmtree(folder / "bin")
    place.installers["UV_DEFAULT_INDEX"] = "file:///nowhere"
    place.installers["UV_NO_CACHE"] = "1"
    for _ in range(2):
        with pytest.raises(InstallFailed):
            python_env.provide(wanted, world)


def test_a_downloaded_python_is_compared_as_well(place: Place, tmp_path: Path) -> None:
    """Also where the environment that was made of it is to be used with another of the same
    version."""
    settings = {"UV_PYTHON_DOWNLOADS_JSON_URL": str(mirror(tmp_path / "mirror")), "UV_OFFLINE": "1"}
    place.installers |= settings | {"UV_PYTHON_PREFERENCE": "only-managed"}
    wanted = EnvironmentRequest(
        folder=place.agent,
        root=place.root,
        requirements=("sunshine==1.0",),
        python=VERSION,
    )
    python = python_env.provide(wanted, place.world()).python
    about = [python, "-c", "import sys; print(sys.base_prefix)"]
    base = subprocess.run(about, capture_output=True, text=True, check=True, env={}).stdout.strip()
    assert Path(base).is_relative_to(place.cache)
    place.log.clear()
    assert python_env.provide(wanted, place.world()).python == python
    assert place.log == [], "what a run of it left is no difference"

    evil = Path(base, f"lib/python{MINOR}/evil.py")
    evil.write_text(EVIL)
    python_env.provide(wanted, place.world())
    assert any("evil.py was added): making it again" in line for line in place.log)
    assert not evil.exists()

    evil.write_text(EVIL)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/python3").symlink_to(Path(sys.executable).resolve())
    place.environment["PATH"] = place.installers["PATH"] = f"{tmp_path}/tools"
    del place.installers["UV_PYTHON_PREFERENCE"]
    assert python_env.provide(wanted, place.world()).python == python
    assert not Path(python).resolve().is_relative_to(place.cache)


def test_many_at_once_make_one_environment(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(place.provide().python)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert sum("installing" in line for line in place.log) == 1


def test_uv_need_not_be_on_the_path(place: Place, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(Path(sys.executable).resolve())
    place.installers["PATH"] = place.environment["PATH"] = str(tools)
    (place.agent / "pyproject.toml").write_text(project("sunshine==1.0"))
    assert place.version(place.provide().python) == "1.0"


HOOK = """
import os, subprocess, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    subprocess.Popen(["sleep", "60"], start_new_session=True)  # with our output, which uv reads to its end
    info = "hooked-1.dist-info/"
    files = {"sunshine.py": "VERSION = 'built'", info + "WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any\\n"}
    files[info + "METADATA"] = "Metadata-Version: 2.1\\nName: hooked\\nVersion: 1\\n"
    files[info + "RECORD"] = "".join(f"{name},,\\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "hooked-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items(): wheel.writestr(name, text)
    return "hooked-1-py3-none-any.whl"
"""
BUILT = (
    '[build-system]\nrequires = []\nbuild-backend = "hook"\nbackend-path = ["."]\n'
    '[project]\nname = "hooked"\nversion = "1"\n'
)


def test_an_installation_does_not_wait_for_what_a_hook_left_running(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    (place.root / "hooked").mkdir()
    (place.root / "hooked/pyproject.toml").write_text(BUILT)
    (place.root / "hooked/hook.py").write_text(HOOK)
    began = time.monotonic()
    assert place.version(place.provide(requirements=["./hooked"]).python) == "built"
    assert time.monotonic() - began < 30


def test_a_virtual_environment_can_be_the_base(place: Place) -> None:
    (place.agent / "requirements.txt").write_text("sunshine==1.0\n")
    first = place.provide().python
    found = place.provide(python=first, requirements=["sunshine==2.0"]).python
    assert place.version(found) == "2.0"
    shutil.rmtree(Path(first).parent.parent)
    assert place.version(found) == "2.0"


def test_with_nothing_to_go_by_a_python_that_has_the_framework_is_found(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "requirements.txt").write_text("sunshine==1.0\n")
    with_it = place.provide().python
    (place.root / "requirements.txt").unlink()
    with pytest.raises(InstallFailed) as caught:
        place.provide(framework="sunshine")
    assert "requirements.txt" in caught.value.message
    assert "agents/weather" in caught.value.message
    (place.root / ".venv").symlink_to(Path(with_it).parent.parent)
    assert place.version(place.provide(framework="sunshine").python) == "1.0"


def test_a_long_installation_is_heard_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_env, "SILENCE_S", 0.001)
    monkeypatch.setattr(process, "WATCH_S", 0.001)
    place.installers["UV_HTTP_RETRIES"] = "0"
    (place.agent / "requirements.txt").write_text("moonlight\n")

    def hang_up_late() -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0]:
                    time.sleep(0.3)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"user:very-secret-word@127.0.0.1:{listener.getsockname()[1]}"
        place.installers["UV_DEFAULT_INDEX"] = f"http://{address}/simple"
        threading.Thread(target=hang_up_late, daemon=True).start()
        with pytest.raises(InstallFailed):
            place.provide()
    told = [line for line in place.log if line.startswith("still installing after 0 s")]
    assert len(told) > 3
    assert "very-secret-word" not in str(told)


BACKEND = """
import os
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.mkdir("weather.egg-info")  # as setuptools does
    os.mkdir(os.path.join(folder, "weather-1.dist-info"))
    with open(os.path.join(folder, "weather-1.dist-info", "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\\nName: weather\\nVersion: 1\\nRequires-Dist: sunshine==1.0\\n")
    return "weather-1.dist-info"
def build_wheel(folder, config_settings=None, metadata_directory=None): raise SystemExit("not to be built")
"""


def test_a_project_that_is_asked_for_its_dependencies_stays_as_it_was(place: Place) -> None:
    place.installers["PYTHONDONTWRITEBYTECODE"] = "1"
    (place.agent / "backend.py").write_text(BACKEND)
    (place.agent / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "weather"\ndynamic = ["version", "dependencies"]\n'
    )
    (place.agent / "weather.dist-info").mkdir()
    before = place.tree()
    assert place.version(place.provide().python) == "1.0"
    assert place.tree() == before


def test_a_python_that_does_not_exist_is_named(place: Place) -> None:
    with pytest.raises(InstallFailed, match="no-such-python"):
        place.provide(python="no-such-python")
