"""What a zygote does once it has imported what takes long: it becomes another process in a fork
whenever it is asked.

Standard input is a socket. A message is one byte and five descriptors: the new process's three
standard streams, a pipe for its process id and its exit code, and a pipe that holds the rest of the
request as JSON. Runs in any interpreter that tests have: standard library only, and nothing of it
is left open in a fork."""

import atexit
import contextlib
import gc
import json
import os
import select
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
    gc.collect()
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
        born = {}
        while True:
            ready, _, _ = select.select([door, wakes], [], [])
            if wakes in ready:
                os.read(wakes, 1024)
                _tell_ends(born)
                continue
            message, descriptors, _, _ = socket.recv_fds(door, 1, DESCRIPTORS)
            if not message:
                end(SystemExit())
            *streams, status, asked = descriptors
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, interrupt)
                door.close()
                for descriptor in (wakes, woken, status, *born.values()):
                    os.close(descriptor)
                return _request(asked, streams)
            for descriptor in (*streams, asked):
                os.close(descriptor)
            born[child] = status
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


def _request(asked, streams):
    """In a fork: its request, once the streams are its standard ones."""
    with os.fdopen(asked, "rb") as pipe:
        request = json.load(pipe)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in {*streams} - {0, 1, 2}:
        os.close(stream)
    return request


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
