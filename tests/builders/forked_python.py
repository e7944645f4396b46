"""Stands in for the Python of a zygote (zygotes.Zygote.python): where it is to run a file, or a
module with `-P -m`, the zygote becomes that in a fork. This process ends as the fork does, and the
fork if this one does. With any other arguments it is that Python itself. Starts in 10 ms."""

import os
import sys

# as the Python of metrics is started; a zygote has no file of a change on its path
if sys.argv[1:3] == ["-I", "-S"]:
    del sys.argv[1:3]
if not "".join(sys.argv[1:2]).endswith((".py", "-P")):
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])

import _signal
import _socket
from _struct import unpack


def number(status):
    return unpack("i", os.read(status, 4))[0]


told, status = os.pipe()
asked, asking = os.pipe()
door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
door.connect(os.path.join(os.path.dirname(os.path.dirname(sys.argv[0])), "door"))
descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2, status, asked))
door.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
os.close(status)
os.close(asked)
request = [os.fsencode(os.getcwd()), b"%d" % (len(sys.argv) - 1), *map(os.fsencode, sys.argv[1:])]
request += [name + b"=" + text for name, text in os.environb.items()]
with open(asking, "wb") as pipe:
    pipe.write(b"\0".join(request))
fork = number(told)
passed_on = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
for each in passed_on:
    _signal.signal(each, lambda number, _: os.killpg(fork, number))
code = number(told)
if code < 0:
    for each in passed_on:
        _signal.signal(each, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
