"""Runs in an agent's interpreter: imports google-adk once, and becomes a worker in a fork whenever it is asked to.

The old google-adk takes ten seconds to import. Standard input is a socket: a message holds the worker's script, kind,
folder and environment as JSON, with its three standard streams; the answer is the process id.
"""

import json
import os
import runpy
import signal
import socket
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import google.adk.agents  # noqa: E402 - it warns while it is imported
import google.adk.runners  # noqa: E402, F401 - what takes long


def become(worker, streams):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(worker["environment"])
    os.chdir(worker["cwd"])
    sys.path[0] = str(Path(worker["script"]).parent)  # as Python does it for a script
    sys.argv[:] = [worker["script"], worker["kind"]]
    runpy.run_path(worker["script"], run_name="__main__")


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    door = socket.socket(fileno=0)
    while True:
        message, streams, _, _ = socket.recv_fds(door, 1 << 20, 3)
        if not message:
            return
        child = os.fork()
        if child == 0:
            os.dup2(streams[0], 0)
            door.detach()
            try:
                become(json.loads(message), streams)
            finally:
                os._exit(1)
        for stream in streams:
            os.close(stream)
        door.send(str(child).encode())


main()
