"""Other users for foreign code: what they can reach, what they own, and that all of them are gone
in the end."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from builders import packages
from builders.gated_repository import Repository

from evalgate.baseline import rules as baseline_rules
from evalgate.config.context import Context, Opening
from evalgate.config.settings import Settings
from evalgate.gate import measure, store
from evalgate.system import isolation, process, python_env
from evalgate.system.isolation import Isolation, Sandbox
from evalgate.system.python_env import EnvironmentRequest, InstallSetup

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        os.geteuid() != 0 or bool(isolation.refusal_reason()),
        reason="needs the system: root and setpriv",
    ),
]
ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"  # which every user can start
APART = isolation.LOW_UIDS.start + 600
"""Numbers that no test beside this one is given."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Outside of pytest's own folder, which each session of pytest closes to other users as it
    begins."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work" / "repo"
    for name, text in {
        ".git/config": "[http] extraheader = token",
        "agents/desk/agent.py": "answer = 42",
        "agents/desk/.git/config": "a nested one",
        "gha-creds-12.json": "of the cloud",
        "data/key.json": "named by a variable",
        "evalgate-report/journal.jsonl": "{}",
        ".cache/evalgate/verdicts/0.json": "{}",
        ".cache/other/file": "of another program",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "link").symlink_to("agents")
    (root / "outside").symlink_to("/etc/hostname")
    (root / "agents/desk/run.sh").touch(mode=0o700)  # for its owner alone
    return root


@pytest.fixture
def isolated(repository: Path) -> Iterator[Isolation]:
    with opened(repository) as found:
        yield found


def opened(repository: Path, **environ: str) -> AbstractContextManager[Isolation]:
    private = [repository / "evalgate-report"]
    return isolation.open_sandboxes(
        [repository], cache=repository / ".cache/evalgate", private_folders=private, environ=environ
    )


def run(
    sandbox: Sandbox, *command: str, cwd: str = "/", memory_bytes: int | None = None
) -> process.Finished:
    """A command as a process of an agent."""
    return process.run_to_end(
        command,
        cwd=cwd,
        environment=sandbox.environment({"PATH": os.defpath}),
        timeout_s=30,
        memory_bytes=memory_bytes,
        prefix=sandbox.agent.prefix,
    )


def test_no_code_of_a_command_is_loaded_before_its_rights_are_dropped(isolated: Isolation) -> None:
    """`env` of an agent in evalgate.yml is the change's: a library that it names would run in
    setpriv, as root."""
    done = process.run_to_end(
        ["/bin/echo", "done"],
        cwd="/",
        environment={"PATH": os.defpath, "LD_PRELOAD": "/no/such/library.so"},
        timeout_s=30,
        memory_bytes=2**30,
        prefix=isolated.head.agent.prefix,
    )
    assert done.stdout.text().strip() == "done"
    assert done.stderr.text().count("cannot be preloaded") == 1, "only in the command itself"


def test_a_folder_that_is_closed_is_no_working_folder(isolated: Isolation, tmp_path: Path) -> None:
    """Whoever is in it already can read what lies there."""
    closed = tmp_path / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "secret").write_text("s3cret")
    closed.parent.chmod(0o700)
    done = run(isolated.head, "/bin/cat", "secret", cwd=str(closed))
    assert done.returncode != 0
    assert "s3cret" not in done.stdout.text()


def test_an_agent_has_no_rights_and_a_home_of_its_own(isolated: Isolation) -> None:
    code = "import os; print(os.getuid(), os.getgroups(), os.environ['HOME'], open('/proc/self/status').read())"
    said = run(isolated.head, PYTHON, "-c", code).stdout.text()
    assert said.startswith(f"{isolated.head.agent.uid} [] {isolated.head.agent.home} ")
    assert "NoNewPrivs:\t1" in said
    assert {line.split()[1] for line in said.splitlines() if line.startswith("Cap")} == {"0" * 16}
    accounts = [
        each
        for side in (isolated.head, isolated.base, isolated.metrics)
        for each in (side.agent, side.installer)
    ]
    assert len({account.uid for account in accounts}) == 6


def test_each_role_has_a_copy_of_the_checkout_that_nobody_else_reaches(
    repository: Path, isolated: Isolation
) -> None:
    head, base = isolated.head, isolated.base
    place = head.placed(str(repository))
    listed = (
        run(head, "/usr/bin/find", ".", "!", "-type", "d", "-printf", "%P\n", cwd=place)
        .stdout.text()
        .split()
    )
    assert sorted(listed) == [
        ".cache/other/file", "agents/desk/agent.py", "agents/desk/run.sh", "data/key.json", "link", "outside",
    ]  # fmt: skip
    written = run(
        head,
        "/bin/sh",
        "-c",
        "echo 1 > agents/desk/agent.py && echo 2 > new && ./agents/desk/run.sh",
        cwd=place,
    )
    assert written.returncode == 0, written.stderr.text()
    assert (repository / "agents/desk/agent.py").read_text(encoding="utf-8") == "answer = 42"
    assert not (repository / "new").exists()

    for closed in (
        str(repository),
        place,
        str(repository / ".git/config"),
        str(head.agent.home),
        str(head.folder),
    ):
        assert run(base, "/bin/ls", closed).returncode != 0, closed
        assert run(isolated.metrics, "/bin/ls", closed).returncode != 0, closed
    assert run(head, "/bin/cat", str(repository / "agents/desk/agent.py")).returncode != 0


@pytest.mark.usefixtures("isolated")
def test_folders_of_earlier_results_are_there_to_be_closed(repository: Path) -> None:
    """In the image, environments in the cache stay reachable, and what is beside them is closed
    once, at the start."""
    names = {path.name for path in (repository / ".cache/evalgate").iterdir()}
    assert {store.FOLDER, "verdicts", "bases"} <= names


def test_modes_are_as_they_were_afterwards(repository: Path) -> None:
    def modes() -> dict[str, int]:
        return {str(path): path.lstat().st_mode for path in (repository, *repository.rglob("*"))}

    before = modes()
    with opened(repository):
        assert repository.stat().st_mode & 0o777 == 0o700
    assert {path: mode for path, mode in modes().items() if path in before} == before


def test_what_stays_reachable_in_a_closed_place_is_reached_by_name_alone(tmp_path: Path) -> None:
    for name in ("a/b/kept/file", "a/b/secret", "a/other/secret", "a/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with isolation.closed([tmp_path / "a"], keep=[tmp_path / "a/b/kept"]):
        modes = {
            name: (tmp_path / name).stat().st_mode & 0o777
            for name in ("a", "a/b", "a/b/kept", "a/b/kept/file")
        }
        assert modes == {"a": 0o711, "a/b": 0o711, "a/b/kept": 0o755, "a/b/kept/file": 0o644}
        closed = {
            name: (tmp_path / name).stat().st_mode & 0o077
            for name in ("a/b/secret", "a/other", "a/secret")
        }
        assert set(closed.values()) == {0}
    assert (tmp_path / "a/secret").stat().st_mode & 0o777 == 0o644


CHEATS = """
import json, os, sys
def answers(*roots):
    for folder, _, names in (each for root in roots for each in os.walk(root)):
        for name in names:
            try:
                text = open(os.path.join(folder, name)).read()
                case, = json.loads(text)["eval_cases"] if "eval_cases" in text else []
            except (OSError, ValueError):
                continue
            yield case["conversation"][0]["final_response"]["parts"][0]["text"]
for line in sys.stdin:
    message = json.loads(line)
    match message["type"]:
        case "hello":
            print(json.dumps({"type": "ready", "protocol": 1, "sessions": 1}), flush=True)
        case "start":
            print(json.dumps({"type": "started", "session": message["session"]}), flush=True)
        case "turn":
            text = next(answers(".", ROOT), "I do not know.")
            event = {"type": "event", "session": message["session"], "author": "agent", "final": True,
                     "content": {"role": "model", "parts": [{"text": text}]}}
            print(json.dumps(event), json.dumps({"type": "turn_end", "session": message["session"]}), sep="\\n", flush=True)
        case "end":
            print(json.dumps({"type": "ended", "session": message["session"]}), flush=True)
"""


@pytest.mark.parametrize(
    ("name", "rules", "code"),
    [
        ("desk.evalset.json", {}, 1),
        ("desk.test.json", {}, 1),
        ("deep/any.json", {}, 1),  # by its content
        ("desk.evalset.json", {"needs-evaluation-files": True}, 0),
    ],
)
def test_an_agent_that_reads_its_answers_fails(
    tmp_path: Path, name: str, rules: dict[str, Any], code: int
) -> None:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.cases(0)
    made.write(name, (made.root / "desk.evalset.json").read_text())
    if name != "desk.evalset.json":
        (made.root / "desk.evalset.json").unlink()
    made.write("agent.py", CHEATS.replace("ROOT", repr(str(made.root))))
    made.gate_file(agents=[{"driver": "command", "command": [PYTHON, "agent.py"]}], **rules)
    made.commit("all")
    ended, said = made.run("--isolate", base="")
    assert ended == code, said
    is_told = "the agent can read its expected answers" in made.comment()
    assert is_told == bool(rules), made.comment()


def test_agents_get_no_file_by_which_they_are_judged(repository: Path) -> None:
    case = {"eval_id": "a", "conversation": []}
    answers = json.dumps({"eval_set_id": "geo", "eval_cases": [case]})
    dataset = json.dumps({"eval_cases": [{"eval_case_id": "a", "prompt": "b"}]})
    hidden = {
        "evals/geo.evalset.json": answers,
        "evals/geo.test.json": answers,
        "evals/test_config.json": "{}",
        "data/any.json": answers,
        "tests/eval/datasets/geo.json": dataset,
        "app/evaluations/geo/geo.json": "{}",
        ".github/evalgate.yml": "runs: 1",
        "agents/desk/.adk/eval_history/1.evalset_result.json": "{}",
        "recorded/one.recording.jsonl": "",
        "tool-cassettes/evals/geo.json": "{}",
    }
    kept = {
        "data/countries-dataset.json": '{"capitals": {}}',  # only the name
        "agents/desk/fixture.test.json": '{"capitals": {}}',
        "agents/desk/settings.json": "{}",
    }
    for name, text in {**hidden, **kept}.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    settings = Settings(root=repository)
    cache = repository / ".cache/evalgate"
    context = Context(environ={}, opening=Opening(isolate=True), cache=cache)
    paths = baseline_rules.measurement_paths(settings, ())
    with measure.open_isolation(settings, [repository], context, hidden_paths=paths) as isolated:
        assert isolated is not None
        for sandbox, lacks in (
            (isolated.head, {*hidden}),
            (isolated.base, {*hidden}),
            (isolated.metrics, set()),  # a metric may compare with what is expected
        ):
            place = Path(sandbox.placed(str(repository)))
            assert {name for name in hidden | kept if not (place / name).exists()} == lacks


ORDINARY = (ROOT / "tests/action/attacks/ordinary.py").read_text(encoding="utf-8")
PUT = "echo of head > {0}/evalgate-of-{1} && echo put; rm -f {0}/evalgate-of-{1}"


def test_ordinary_programs_find_what_they_share_and_where_to_write(isolated: Isolation) -> None:
    for sandbox in (isolated.head, isolated.base, isolated.metrics):
        ended = run(sandbox, PYTHON, "-c", ORDINARY)
        assert ended.stdout.text() == "works\n", ended.stderr.text()


@pytest.mark.skipif(
    not isolation.landlock_rights(),
    reason="needs the system: Landlock, and a setpriv (util-linux 2.40) that knows it",
)
@pytest.mark.parametrize("role", isolation.ROLES)
def test_nothing_is_put_where_others_look_for_their_files(
    repository: Path, isolated: Isolation, role: str
) -> None:
    """A file of head's under a name that the base's code uses would make the base fail."""
    sandbox: Sandbox = getattr(isolated, role)
    for place, said in {
        "/tmp": "",
        "/var/tmp": "",
        "/dev/mqueue": "",
        "/dev/shm": "put\n",
        str(sandbox.agent.home): "put\n",
        str(sandbox.agent.home / "tmp"): "put\n",
        sandbox.placed(str(repository)): "put\n",
    }.items():
        assert run(sandbox, "/bin/sh", "-c", PUT.format(place, role)).stdout.text() == said, place


def test_a_credential_file_that_is_granted_is_readable_and_no_other(repository: Path) -> None:
    (repository / "data/linked.json").symlink_to(repository / ".git/config")
    named = {
        "CLOUD_CREDENTIALS": str(repository / "gha-creds-12.json"),
        # of the change: it could lead anywhere
        "DESK_KEY_FILE": str(repository / "data/linked.json"),
        "TITLE": str(repository / ".git/config"),  # its text may be anybody's
        "DATA": f"{repository}/data:{repository}/agents",
        "ENVIRONMENT": str(repository / ".cache/evalgate/head/env-1/bin"),
        "LONG": "/" + "x" * 5000,
    }
    with opened(repository, **named) as isolated:
        head = isolated.head
        seen = head.environment(named)
        place = head.placed(str(repository))
        assert run(head, "/bin/cat", seen["CLOUD_CREDENTIALS"]).stdout.text() == "of the cloud"
        assert run(isolated.base, "/bin/cat", seen["CLOUD_CREDENTIALS"]).returncode != 0
        assert run(head, "/bin/cat", seen["DESK_KEY_FILE"]).returncode != 0
        assert run(head, "/bin/cat", seen["TITLE"]).returncode != 0
        assert seen["DATA"] == f"{place}/data:{place}/agents"
        assert (seen["ENVIRONMENT"], seen["LONG"]) == (named["ENVIRONMENT"], named["LONG"])


SURVIVING = """
import os, signal, time
read, write = os.pipe()
if os.fork():
    os.read(read, 1)  # once it is out of our group
    print("started", flush=True)
else:
    os.setsid()
    os.write(write, b"!")
    for number in (1, 2, 15):
        signal.signal(number, signal.SIG_IGN)
    while True:
        if os.fork():
            os._exit(0)  # another number again and again
        time.sleep(0.05)
"""


def test_everything_of_an_agent_is_gone_when_the_run_is_over(repository: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as bystander:
        with opened(repository) as isolated:
            uids = [isolated.head.agent.uid, isolated.base.agent.uid]
            for sandbox in (isolated.head, isolated.base, isolated.head):
                assert run(sandbox, PYTHON, "-c", SURVIVING).stdout.text() == "started\n"
            assert any(isolation.running(uids) for _ in range(500)), "they are hard to see"
        assert not any(isolation.running(uids) for _ in range(20))
        assert bystander.poll() is None
        bystander.kill()


def test_two_gates_on_a_machine_use_different_users(repository: Path, isolated: Isolation) -> None:
    with opened(repository) as other:
        mine, theirs = (
            {isolated.head.agent.uid, isolated.base.installer.uid},
            {other.head.agent.uid, other.base.installer.uid},
        )
        assert not mine & theirs
        assert run(isolated.head, "/bin/kill", "-0", str(os.getpid())).returncode != 0


@pytest.mark.parametrize(
    "identity",
    [
        {"user": APART},
        {"user": APART + 3},  # any number of a block
        {"group": APART + 5},
        {"extra_groups": [APART + 1]},
    ],
)
def test_numbers_of_a_living_process_are_passed_over(
    repository: Path, identity: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "FIRST_UID", APART)
    monkeypatch.setattr(isolation, "LAST_UID", APART + 2 * isolation.UIDS_PER_RUN)
    with subprocess.Popen(["/bin/sleep", "60"], **identity) as bystander:
        with opened(repository) as isolated:
            assert isolated.head.agent.uid == APART + isolation.UIDS_PER_RUN
        assert bystander.poll() is None, "nobody ends what is not ours"
        bystander.kill()


def test_an_agent_keeps_no_other_gate_from_its_users(repository: Path, isolated: Isolation) -> None:
    """By whatever it can take: names of sockets that stood for a number, and locks."""
    bind = (
        "import fcntl, glob, socket, sys\n"
        "for first in range(64001, 64901):\n"
        "    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "    taken.bind(f'\\0evalgate-uid-{first}')\n"
        "    globals()[f's{first}'] = taken\n"
        f"locks = glob.glob('{isolation.LOCKS}/*')\n"
        "print(len(locks), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [*isolated.head.agent.prefix, PYTHON, "-c", bind]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as agent,
        opened(repository) as other,
    ):
        assert agent.stdout is not None
        assert agent.stdout.readline() == "0\n"
        assert other.head.agent.uid != isolated.head.agent.uid
        agent.kill()


def test_users_have_numbers_that_few_systems_use() -> None:
    """Above 2^16 wherever the system has such users."""
    rows = Path("/proc/self/uid_map").read_text().split()
    assert (isolation.FIRST_UID > 2**16) is (int(rows[2]) > isolation.HIGH_UIDS.stop)


def test_numbers_with_an_entry_are_passed_over(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, size = isolation.pwd.getpwuid(0), isolation.UIDS_PER_RUN
    monkeypatch.setattr(isolation, "FIRST_UID", isolation.LOW_UIDS.start)
    monkeypatch.setattr(isolation, "LAST_UID", 64900)
    every_second = dict.fromkeys(range(isolation.FIRST_UID + 2, isolation.LAST_UID, 2 * size), root)
    monkeypatch.setattr(isolation.pwd, "getpwuid", every_second.__getitem__)
    with opened(repository) as isolated:
        assert (isolated.head.agent.uid - isolation.FIRST_UID) // size % 2 == 1
    all_of_them = dict.fromkeys(range(isolation.FIRST_UID, isolation.LAST_UID + size), root)
    monkeypatch.setattr(isolation.pwd, "getpwuid", all_of_them.__getitem__)
    with (
        pytest.raises(isolation.NotPossible, match="all numbers from 64001 to 64900 are taken"),
        opened(repository),
    ):
        pass


def test_whether_it_is_possible_is_asked_while_another_gate_ends_its_users() -> None:
    over = threading.Event()

    def end() -> None:
        while not over.is_set():
            isolation.end_all([isolation.LAST_UID - 1])

    other = threading.Thread(target=end)
    other.start()
    isolation.landlock_rights.cache_clear()
    try:
        assert [isolation.refusal_reason() for _ in range(40)] == [""] * 40
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        (["no-such-program"], "/", "no-such-program: command not found"),
        (["/no/such/program"], "/", "/no/such/program: command not found"),
        (["/bin/true"], "/no/such/folder", "the folder /no/such/folder does not exist"),
        # a script whose interpreter is gone, and one that may not be run
        (["./gone"], "HERE", "the interpreter in its first line does not: /no/such/interpreter"),
        (["./plain"], "HERE", "./plain: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_in_our_words(
    isolated: Isolation, tmp_path: Path, command: list[str], cwd: str, said: str
) -> None:
    (tmp_path / "gone").write_text("#!/no/such/interpreter\n", encoding="utf-8")
    (tmp_path / "gone").chmod(0o755)
    (tmp_path / "plain").write_text("#!/bin/sh\n", encoding="utf-8")
    with pytest.raises(process.ChildStartError, match=re.escape(said)):
        run(isolated.head, *command, cwd=str(tmp_path) if cwd == "HERE" else cwd)


def test_memory_is_limited_for_another_user_too(isolated: Isolation) -> None:
    code = "try:\n  len(bytearray(400_000_000))\nexcept MemoryError:\n  print('refused')"
    assert run(isolated.head, PYTHON, "-c", code).stdout.text() == ""
    assert (
        run(isolated.head, PYTHON, "-c", code, memory_bytes=200_000_000).stdout.text()
        == "refused\n"
    )


BACKEND = """
import os, time, zipfile
def get_requires_for_build_wheel(config_settings=None): return []
def build_wheel(folder, config_settings=None, metadata_directory=None):
    for place, _, _ in os.walk(os.environ["UV_PROJECT_ENVIRONMENT"]):
        os.chmod(place, 0o777)  # for whoever comes later
    if os.fork() == 0:  # waits until the environment is there
        os.setsid(); os.closerange(0, 50)
        while True: pass
    if os.fork() == 0:  # with our output, which the installer reads to its end
        os.setsid(); time.sleep(60); os._exit(0)
    info = "hooked-1.dist-info/"
    files = {"hooked.py": "UID = %d" % os.getuid(), info + "WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any\\n"}
    files[info + "METADATA"] = "Metadata-Version: 2.1\\nName: hooked\\nVersion: 1\\n"
    files[info + "RECORD"] = "".join(f"{name},,\\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "hooked-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items(): wheel.writestr(name, text)
    return "hooked-1-py3-none-any.whl"
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "hooked"
version = "1"
"""


def test_an_environment_is_made_by_a_user_of_its_own_and_changed_by_nobody(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    began = time.monotonic()
    for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND}.items():
        (repository / "hooked").mkdir(exist_ok=True)
        (repository / "hooked" / name).write_text(text, encoding="utf-8")
    (repository / "requirements.txt").write_text("./hooked\n", encoding="utf-8")
    with opened(repository) as isolated:
        found = {}
        for side in (isolated.head, isolated.base):
            settings = {"PATH": os.defpath, "UV_OFFLINE": "1"}
            world = InstallSetup(
                environment=settings,
                install_environment=settings,
                cache="/nowhere",
                log=str,
                sandbox=side,
            )
            wanted = EnvironmentRequest(
                folder=repository,
                root=repository,
                python=PYTHON,
                requirements=("./hooked",),
            )
            found[side.agent.uid] = python_env.provide(wanted, world).python
            assert isolation.running([side.installer.uid]) == frozenset(), "its hooks are gone"
            assert time.monotonic() - began < 50, "nobody waits for them"
            said = run(
                side,
                found[side.agent.uid],
                "-c",
                "import hooked; print(hooked.UID, hooked.__file__)",
            )
            uid, file = said.stdout.text().split()
            assert int(uid) == side.installer.uid
            for change in (f"echo >> {file}", f"touch {Path(file).parent}/new.py", f"rm {file}"):
                assert run(side, "/bin/sh", "-c", change).returncode != 0, change
                assert run(isolated.base, "/bin/sh", "-c", change).returncode != 0, change
            seals = side.cache / "sealed"
            assert list(seals.glob(f"{Path(found[side.agent.uid]).parents[1].name}.json"))
            for change in (f"touch {seals}/new", f"rm {seals}/*", f"mv {seals} {seals}.old"):
                command = ("/bin/sh", "-c", change)
                for account in (side.agent, side.installer):
                    done = process.run_to_end(
                        command, cwd="/", environment={}, timeout_s=30, prefix=account.prefix
                    )
                    assert done.returncode != 0, change
            assert (side.folder / "uv").is_dir(), "what hooks leave in uv's cache goes with the run"
        assert len(set(found.values())) == 2, "each side has its own"
        shutil.rmtree(Path(found[isolated.head.agent.uid]).parents[2])


def test_a_hook_in_namespaces_of_its_own_writes_no_seal(tmp_path: Path) -> None:
    if shutil.which("bwrap", path=os.defpath) is None:
        pytest.skip("needs the system: bubblewrap, which only root can install")
    (tmp_path / "own").mkdir()
    (tmp_path / "cache/sealed").mkdir(parents=True)
    (tmp_path / "cache/sealed/env-1.json").touch()
    for installs in (True, False):
        writable = [tmp_path / "own", *([tmp_path / "cache"] if installs else [])]
        prefix = isolation._namespaces(tmp_path / "cache", (), writable=writable)
        changes = (
            "rm sealed/env-1.json",
            "touch sealed/new",
            "mv sealed other",
            "rmdir sealed",
            "touch new",
        )
        code = "; ".join(f"{change} 2>/dev/null && echo {change}" for change in changes)
        command, cwd, settings = (
            ["/bin/sh", "-c", code],
            str(tmp_path / "cache"),
            {"PATH": os.defpath},
        )
        done = process.run_to_end(
            command, cwd=cwd, environment=settings, timeout_s=30, prefix=prefix
        )
        assert done.stdout.text().split("\n")[:-1] == (["touch new"] if installs else []), (
            done.stderr.text()
        )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach: each pytest that starts closes those of all others."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_downloaded_python_is_for_all_to_run_and_for_nobody_to_change(
    repository: Path, open_folder: Path
) -> None:
    settings = {
        "PATH": os.defpath,
        "UV_PYTHON_DOWNLOADS_JSON_URL": str(packages.mirror(open_folder)),
        "UV_PYTHON_PREFERENCE": "only-managed",
        "UV_OFFLINE": "1",
    }
    (repository / "pyproject.toml").write_text(
        f'[tool.poetry]\npackage-mode = false\n[tool.poetry.dependencies]\npython = "{packages.VERSION}"\n'
        'hooked = { path = "hooked" }\n'
    )
    for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND}.items():
        (repository / "hooked").mkdir(exist_ok=True)
        (repository / "hooked" / name).write_text(text, encoding="utf-8")
    with opened(repository) as isolated:
        side = isolated.head
        world = InstallSetup(
            environment=settings,
            install_environment=settings,
            cache="/nowhere",
            log=str,
            sandbox=side,
        )
        python = python_env.provide(
            EnvironmentRequest(folder=repository, root=repository), world
        ).python
        said = (
            run(side, python, "-c", "import hooked, sys; print(sys.base_prefix)")
            .stdout.text()
            .strip()
        )
        assert Path(said).is_relative_to(side.cache)
        for account in (
            side.agent,
            isolated.metrics.agent,
            isolated.base.installer,
            side.installer,
        ):
            command = (
                "/bin/sh",
                "-c",
                f"{python} -c 1 && ! touch {said}/new && ! rm -r {said}/lib",
            )
            done = process.run_to_end(
                command, cwd="/", environment={}, timeout_s=30, prefix=account.prefix
            )
            assert done.returncode == 0, done.stderr.text()
            assert Path(said, "lib").is_dir()
        shutil.rmtree(Path(python).parents[2])


UV = """#!/bin/sh
for last; do :; done
case "$1 $2" in
"python find") touch "$TMPDIR/looking"; sleep 1; echo PYTHON;;
"venv "*) mkdir -p "$last/bin" && ln -s PYTHON "$last/bin/python";;
esac
"""


def test_an_agent_that_looks_for_a_python_while_another_ones_environment_is_sealed(
    repository: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are of one side, and so are their installers one user, whose processes are ended when
    one is done."""
    program = open_folder / "uv"
    program.write_text(UV.replace("PYTHON", PYTHON), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(program))
    (repository / "requirements.txt").touch()
    log: list[str] = []
    with opened(repository) as isolated:
        side = isolated.head
        # so that uv is asked first
        settings = {"PATH": os.defpath, "UV_PYTHON_PREFERENCE": "only-system"}
        world = InstallSetup(
            environment=settings,
            install_environment=settings,
            cache="/",
            log=log.append,
            sandbox=side,
        )
        wanted = EnvironmentRequest(folder=repository, root=repository)
        looking = threading.Thread(target=python_env.provide, args=(wanted, world))
        looking.start()
        while not (side.installer.home / "tmp/looking").exists():
            assert looking.is_alive()
            time.sleep(0.01)
        # of this test alone
        wanted = dataclasses.replace(wanted, python=PYTHON, requirements=(open_folder.name,))
        made = python_env.provide(wanted, world)
        looking.join()
    assert [line for line in log if "downloading" in line] == [], "it was found"
    assert any(f"from {open_folder.name} with uv" in line for line in log)
    shutil.rmtree(Path(made.python).parents[1])


LOOKING = """
import glob, json, os, sys
seen = {"uid": os.getuid(), "files": glob.glob("HOME/*") + glob.glob("HOME/.*") + glob.glob("REPOSITORY/*")}
seen["processes"] = len([each for each in os.listdir("/proc") if each.isdecimal()])
seen["secret"] = os.environ.get("SECRET")
for line in sys.stdin:
    message = json.loads(line)
    session = {"session": message.get("session", "")}
    content = {"role": "model", "parts": [{"text": json.dumps(seen)}]}
    for said in {
        "hello": [{"type": "ready", "protocol": 1, "sessions": 1}],
        "start": [{"type": "started", **session}],
        "turn": [{"type": "event", "content": content, "final": True, **session}, {"type": "turn_end", **session}],
        "end": [{"type": "ended", **session}],
    }.get(message["type"], []):
        print(json.dumps(said), flush=True)
"""


@pytest.mark.parametrize("is_root", [True, False], ids=["root", "bubblewrap"])
def test_a_run_at_a_terminal_keeps_the_agent_from_the_users_files(
    tmp_path: Path, is_root: bool
) -> None:
    if not is_root and shutil.which("bwrap", path=os.defpath) is None:
        pytest.skip("needs the system: bubblewrap, which only root can install")
    if subprocess.run(
        [PYTHON, "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"],
        check=False,
    ).returncode:
        pytest.skip(
            f"needs the system: {PYTHON} is of another version than the packages of this environment"
        )
    home, repository = tmp_path / "home", tmp_path / "home" / "repository"
    turn = {
        "user_content": {"parts": [{"text": "hi"}]},
        "final_response": {"parts": [{"text": "hello"}]},
    }
    cases = {"eval_set_id": "a", "eval_cases": [{"eval_id": "a", "conversation": [turn]}]}
    files = {
        "repository/evalgate.yml": f"agent: 'command:{PYTHON} agent.py'\n",
        "repository/agent.py": LOOKING.replace("HOME", str(home)).replace(
            "REPOSITORY", str(repository)
        ),
        "repository/a.evalset.json": json.dumps(cases),
        "repository/test_config.json": json.dumps({"criteria": {"response_match_score": 0.9}}),
        ".ssh": "a key",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    home.chmod(0o700)
    uid = 0 if is_root else 1234
    for path in (home, *home.rglob("*")):
        os.chown(path, uid, uid)
    # this user may not go where this checkout lies
    installed = {
        ROOT / "evalgate": tmp_path / "own/evalgate",
        Path(pytest.__file__).parents[1]: tmp_path / "packages",
    }
    for source, target in installed.items():
        shutil.copytree(
            source,
            target,
            symlinks=True,
            copy_function=os.link,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for folder, _, _ in os.walk(target):
            Path(folder).chmod(0o755)
    found = f"{tmp_path / 'own'}:{tmp_path / 'packages'}"
    environment = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": found, "SECRET": "s3cret"}
    done = subprocess.run(
        [PYTHON, "-B", "-m", "evalgate", "run", "--isolate"],
        cwd=repository,
        env=environment,
        user=uid,
        group=uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    results = (repository / "evalgate-report/results.json").read_text(encoding="utf-8")
    seen = json.loads(re.search(r"\{\\\"uid.*?\}", results)[0].replace('\\"', '"'))  # type: ignore[index]
    assert [path for path in seen["files"] if path != f"{home}/.cache"] == [], (
        "what lies there is closed as well"
    )
    assert seen["secret"] is None
    assert (seen["uid"] != 0) if is_root else (seen["uid"] == uid and seen["processes"] < 5)


@pytest.mark.parametrize("kind", ["private", "environment", "base"])
def test_a_python_where_nobody_else_may_go_is_put_where_the_agent_can_start_it(
    tmp_path: Path, repository: Path, isolated: Isolation, kind: str
) -> None:
    """An environment in a folder of its owner's, of a Python of the system or of one in such a
    folder."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    python = PYTHON
    if kind != "environment":
        base = Path(PYTHON).resolve()
        (private / "bin").mkdir()
        shutil.copy(base, private / "bin/python3")
        shutil.copytree(f"/usr/lib/{base.name}", private / f"lib/{base.name}", symlinks=True)
        python = str(private / "bin/python3")
    if kind != "private":
        subprocess.run([python, "-m", "venv", "--without-pip", private / "venv"], check=True)
        (packages,) = (private / "venv").glob("lib/python3*/site-packages")
        (packages / "installed.py").write_text("ANSWER = 42")
        python = str(private / "venv/bin/python")
    before = {path: path.lstat().st_mode for path in private.rglob("*")}
    placed = isolated.head.reachable_python(python)
    wanted = "json" if kind == "private" else "installed"
    done = run(
        isolated.head, placed, "-c", f"import {wanted}, sys; print({wanted}.__file__, sys.prefix)"
    )
    assert done.returncode == 0, done.stderr.text()
    assert str(isolated.head.folder) in done.stdout.text()
    assert {path: path.lstat().st_mode for path in private.rglob("*")} == before
    assert private.stat().st_mode & 0o777 == 0o700
    # and nobody but root writes there
    assert (
        run(isolated.head, "/bin/sh", "-c", f"! touch {placed}.new && ! rm {placed}").returncode
        == 0
    )
    assert isolated.head.reachable_python(python) == placed
    assert isolated.head.reachable_python(PYTHON) == PYTHON
    # an environment that was made for this role lies where it belongs
    subprocess.run(
        [PYTHON, "-m", "venv", "--without-pip", isolated.head.cache / "env-0"], check=True
    )
    made = str(isolated.head.cache / "env-0/bin/python")
    assert isolated.head.reachable_python(made) == made
    shutil.rmtree(isolated.head.cache / "env-0")
    # and one of the checkout is that of its copy
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", repository / ".venv"], check=True)
    assert isolated.base.reachable_python(f"{repository}/.venv/bin/python").startswith(
        str(isolated.base.folder / "tree")
    )


def test_what_is_ours_is_put_where_the_agent_can_read_it(
    tmp_path: Path, isolated: Isolation
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "worker").mkdir()
    (private / "worker/server.py").write_text("print('served')")
    placed = isolated.head.reachable(private / "worker")
    assert run(isolated.head, PYTHON, str(placed / "server.py")).stdout.text() == "served\n"
    assert isolated.head.reachable(Path("/usr/bin/env")) == Path("/usr/bin/env")
