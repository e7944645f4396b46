"""What a zygote does once it has imported what takes long: it becomes another process in a fork
whenever it is asked.

Standard input is a socket. A message is one byte and five descriptors: the new process's three
standard streams, a pipe for its process id and its exit code, and a pipe that holds the rest of the
request as JSON. Runs in any interpreter that tests have: standard library only, and nothing of it
is left open in a fork."""

import atexit
import gc
import json
import os
import signal
import socket
import struct
import sys
import threading

DESCRIPTORS = 5

gc.disable()  # what is imported stays: to search it for garbage takes a tenth as long


def next_request():
    """Wait for messages; returns the request in each fork, None in the zygote where nobody is left
    to ask."""
    gc.collect()
    gc.freeze()  # or each fork's first collection copies all that is there
    gc.enable()
    with socket.socket(fileno=os.dup(0)) as door:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        # Ctrl-C reaches all that run in pytest's group
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            message, descriptors, _, _ = socket.recv_fds(door, 1, DESCRIPTORS)
            _reap()
            if not message:
                return None
            if os.fork() == 0:
                door.close()
                request = _keep(*descriptors)
                signal.signal(signal.SIGINT, interrupt)
                return request
            for descriptor in descriptors:
                os.close(descriptor)


def end(ended):
    """End a fork with this SystemExit as Python would, but for the modules: to take thousands of
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


def _reap():
    """Forget the keepers that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _keep(stdin, stdout, stderr, status, asked):
    """Fork again: the child returns its request; the parent stays, says the child's id and its end,
    and ends too."""
    with os.fdopen(asked, "rb") as pipe:
        request = json.load(pipe)
    child = os.fork()
    if child == 0:
        os.close(status)
        for number, stream in enumerate((stdin, stdout, stderr)):
            os.dup2(stream, number)
        for stream in {stdin, stdout, stderr} - {0, 1, 2}:
            os.close(stream)
        return request
    for stream in (stdin, stdout, stderr, 0, 1, 2):
        os.close(stream)
    try:
        os.write(status, struct.pack("i", child))
        _, ended = os.waitpid(child, 0)
        os.write(status, struct.pack("i", os.waitstatus_to_exitcode(ended)))
    except BrokenPipeError:  # nobody wants to know any more
        pass
    os._exit(0)
