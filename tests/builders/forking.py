"""What a zygote does once it has imported what takes long: it becomes another process in a fork
whenever it is asked.

Standard input is a socket that listens. A message is one byte and five descriptors: the new
process's three standard streams, a pipe for its process id and its exit code, and a pipe that holds
the rest of the request (parcel). Who connects first may send many, and the zygote ends where that
connection does. A later one sends one (forked_python), and its process ends where the connection
does. Runs in any interpreter that tests have: standard library only, and nothing of it is left open
in a fork."""

import atexit
import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import struct
import sys
import threading

DESCRIPTORS = 5

gc.disable()  # what is imported stays: to search it for garbage takes a tenth as long


def next_request():
    """Wait for messages; returns the request in each fork. The zygote ends where nobody is left to
    ask."""
    gc.freeze()  # or each fork's first collection copies all that is there
    gc.enable()
    with socket.socket(fileno=os.dup(0)) as door:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        # Ctrl-C reaches all that run in pytest's group
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wakes, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        owner, _ = door.accept()
        born = {}
        guests = {}  # by connection: its process
        while True:
            ready, _, _ = select.select([door, owner, wakes, *guests], [], [])
            if wakes in ready:
                os.read(wakes, 1024)
                _tell_ends(born)
                continue
            asker = ready[0]
            if asker is door:
                asker, _ = door.accept()
                guests[asker] = 0
            message, descriptors, _, _ = socket.recv_fds(asker, 1, DESCRIPTORS)
            if not message:
                _leave(asker, guests, born, door)
                continue
            *streams, status, asked = descriptors
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, interrupt)
                if asker is not owner:
                    os.setsid()
                for connection in (door, owner, *guests):
                    connection.close()
                for descriptor in (wakes, woken, status, *born.values()):
                    os.close(descriptor)
                return _request(asked, streams)
            for descriptor in (*streams, asked):
                os.close(descriptor)
            born[child] = status
            if asker in guests:
                guests[asker] = child
            _say(status, child)


def end(ended):
    """End a process with this SystemExit as Python would, but for the modules: to take thousands of
    them apart takes as long as a command."""
    code = 0 if ended.code is None else ended.code
    if not isinstance(code, int):
        raise ended
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python has a code of its own for that
        raise ended from None
    os._exit(code & 0xFF)


def parcel(command, cwd, environment):
    """A request as bytes."""
    variables = (f"{name}={text}" for name, text in environment.items())
    return b"\0".join(map(os.fsencode, [cwd, str(len(command)), *command, *variables]))


def _request(asked, streams):
    """In a fork: its command, folder and environment, once the streams are its standard ones."""
    with os.fdopen(asked, "rb") as pipe:
        cwd, count, *rest = map(os.fsdecode, pipe.read().split(b"\0"))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in {*streams} - {0, 1, 2}:
        os.close(stream)
    command, variables = rest[: int(count)], rest[int(count) :]
    return command, cwd, dict(each.split("=", 1) for each in variables)


def _leave(asker, guests, born, door):
    """What the end of a connection ends: this process, with the folder of its door, or that of a
    guest."""
    if asker not in guests:
        shutil.rmtree(os.path.dirname(door.getsockname()), ignore_errors=True)  # noqa: PTH120 - no Path is needed here
        end(SystemExit())
    asker.close()
    guest = guests.pop(asker)
    if guest in born:
        os.killpg(guest, signal.SIGKILL)


def _tell_ends(born):
    """Say the exit codes of the children that have ended; `born`: where, by their ids."""
    while born:
        child, ended = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        status = born.pop(child)
        _say(status, os.waitstatus_to_exitcode(ended))
        os.close(status)


def _say(status, number):
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
        os.write(status, struct.pack("i", number))
