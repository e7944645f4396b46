"""Runs as a child of pytest: imports the command's modules once, and becomes `evalgate` in a fork whenever it is asked.

Standard input is a socket. A message is one byte and five descriptors: the command's three standard streams, a pipe
for its process id and its exit code, and a pipe that holds its arguments, folder and environment as JSON. Standard
output and error are pipes, as a command's are here: Python made `sys.stdout` and `sys.stderr` for such.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import sys
import time
from pathlib import Path

import evalgate
from evalgate import cli

STREAMS = 5
# what runs import when they come to need it: what takes long, else a hundred runs load it a hundred times
LATE = ("genai_prices", "google.auth.transport.requests", "google.genai", "jinja2.sandbox", "numpy", "requests")
NEVER = ("evalgate.agents.worker", "evalgate.__main__")  # the agent's interpreter is its place; it runs the command


def preload():
    """All that a command of ours could come to import, but what it takes care never to import whole (nltk)."""
    for module in pkgutil.walk_packages(evalgate.__path__, "evalgate."):
        if not module.name.startswith(NEVER):
            importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each fork's first collection copies all of it


def next_command(door):
    """Wait for messages; returns the request in each fork that is a command, None where nobody is left to ask."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all that run in pytest's group
    while True:
        message, descriptors, _, _ = socket.recv_fds(door, 1, STREAMS)
        reap()
        if not message:
            return None
        if os.fork() == 0:
            door.close()
            request = keep(*descriptors)
            signal.signal(signal.SIGINT, interrupt)
            return request
        for descriptor in descriptors:
            os.close(descriptor)


def reap():
    """Forget the keepers that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def keep(stdin, stdout, stderr, status, asked):
    """Fork again: the child returns its request; the parent stays, says the child's id and its end, and ends too."""
    with os.fdopen(asked, "rb") as pipe:
        request = json.load(pipe)
    command = os.fork()
    if command == 0:
        os.close(status)
        for number, stream in enumerate((stdin, stdout, stderr)):
            os.dup2(stream, number)
        for stream in {stdin, stdout, stderr} - {0, 1, 2}:
            os.close(stream)
        return request
    for stream in (stdin, stdout, stderr, 0, 1, 2):
        os.close(stream)
    os.write(status, struct.pack("i", command))
    _, ended = os.waitpid(command, 0)
    os.write(status, struct.pack("i", os.waitstatus_to_exitcode(ended)))
    os._exit(0)


def become(request):
    """The state in which Python hands over to the console script."""
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv[:] = request["command"]
    sys.path[0] = str(Path(request["command"][0]).parent)


def main():
    preload()
    with socket.socket(fileno=os.dup(0)) as door:
        devnull = os.open(os.devnull, os.O_RDONLY)
        os.dup2(devnull, 0)
        os.close(devnull)
        request = next_command(door)
    if request is not None:
        become(request)
        sys.exit(cli.main())


if __name__ == "__main__":
    main()
