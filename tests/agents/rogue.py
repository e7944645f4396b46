"""An agent of the line protocol that misbehaves on demand: the user's text names what it does.

`python rogue.py SESSIONS [AT_START]`; texts are `verb argument`, anything unknown is answered with
an echo."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

SAY = threading.Lock()


def write(data: bytes) -> None:
    with SAY:
        while data:
            data = data[os.write(1, data) :]


def say(**message) -> None:
    write(json.dumps(message).encode() + b"\n")


def answer(session: str, text: str) -> None:
    content = {"role": "model", "parts": [{"text": text}]}
    say(type="event", session=session, author="rogue", content=content, final=True)
    say(type="turn_end", session=session)


def at_start(what: str) -> None:
    match what:
        case "exit":
            sys.stderr.write("ModuleNotFoundError: no module named 'agent_of_mine'\n")
            sys.exit(7)
        case "fatal":
            say(
                type="fatal",
                kind="start",
                message="no root_agent in agent.py",
                detail="looked in agent.py",
            )
            sys.exit(1)
        case "install":
            say(type="fatal", kind="install", message="cannot make the environment")
            sys.exit(1)
        case "hang":
            time.sleep(600)
        case "junk":
            write(b"Welcome to my agent!\n")
        case "version":
            say(type="ready", protocol=2)
            time.sleep(600)
        case "count":
            with Path(os.environ["COUNT"]).open("a") as file:
                file.write("started\n")
            sys.exit(3)


def flood_line(total: int) -> None:
    chunk = b"x" * 65536
    for _ in range(total // len(chunk)):
        write(chunk)


def flood_lines(session: str, total: int) -> None:
    text = "y" * 1000
    event = {
        "type": "event",
        "session": session,
        "author": "a",
        "content": {"parts": [{"text": text}]},
    }
    line = json.dumps(event).encode() + b"\n"
    for _ in range(total // len(line)):
        write(line)


def turn(session: str, said: str, state: dict) -> None:  # noqa: C901 - one branch for each way to misbehave
    verb, _, rest = said.partition(" ")
    match verb:
        case "state":
            answer(session, json.dumps(state, sort_keys=True))
        case "remember":
            key, _, value = rest.partition("=")
            time.sleep(float(os.environ.get("PAUSE", "0")))
            state[key] = value
            answer(session, f"{key} is {value}")
        case "pid":
            answer(session, str(os.getpid()))
        case "exit":
            sys.stderr.write("about to leave\n")
            os._exit(int(rest))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(600)
        case "slow":
            time.sleep(float(rest))
            answer(session, "slow but sure")
        case "flood-line":
            flood_line(int(rest))
        case "flood-lines":
            flood_lines(session, int(rest))
        case "flood-events":
            for _ in range(int(rest)):
                say(type="event", session=session, author="a")
            answer(session, "done")
        case "flood-stderr":
            for _ in range(int(rest) // 65536):
                os.write(2, b"e" * 65535 + b"\n")
            os.write(2, b"last words\n")
            answer(session, "still here")
        case "raw":
            write(rest.encode("latin-1").decode("unicode_escape").encode("latin-1"))
            time.sleep(600)
        case "half":
            write(b'{"type": "event", "sess')
            os._exit(0)
        case "close-stdout":
            os.close(1)
            time.sleep(600)
        case "wrong-session":
            say(type="event", session="somebody else", author="a")
            time.sleep(600)
        case "future-session":
            say(type="turn_end", session="s999")
            time.sleep(600)
        case "twice":
            answer(session, "one")
            answer(session, "two")
        case "memory":
            block = bytearray(int(rest))
            answer(session, f"took {len(block)}")
        case "memory-limit":
            answer(session, str(resource.getrlimit(resource.RLIMIT_DATA)[0]))
        case "grandchild":
            child = subprocess.Popen(["sleep", "600"])
            answer(session, str(child.pid))
        case "fail":
            kind, _, message = rest.partition(" ")
            told = {"code": 429, "retry_after_s": 7} if kind == "rate_limited" else {}
            say(
                type="turn_failed",
                session=session,
                kind=kind,
                message=message,
                detail="Traceback ...",
                **told,
            )
        case "secret":
            sys.stderr.write(f"connecting with {os.environ['SOME_API_KEY']}\n")
            sys.stderr.flush()
            message = f"bad key {os.environ['SOME_API_KEY']}"
            say(type="turn_failed", session=session, kind="raised", message=message)
        case "environment":
            answer(session, json.dumps(dict(os.environ)))
        case "surrogate":
            write(b'{"type":"event","session":"%s","author":"a","final":true,' % session.encode())
            write(b'"content":{"parts":[{"text":"half \\ud83d"}]}}\n')
            say(type="turn_end", session=session)
        case "novelty":
            content = {"parts": [{"text": "new", "hologram": {"x": 1}}], "mood": "fine"}
            say(
                type="event",
                session=session,
                author="a",
                final=True,
                content=content,
                weather="sunny",
            )
            say(type="turn_end", session=session, extra=[1])
        case _:
            answer(session, said)


def metric(message: dict) -> None:
    match message["code"]:
        case "m.hang":
            time.sleep(600)
        case "m.exit":
            os._exit(9)
        case "m.raise":
            say(type="metric_result", id=message["id"], error="ZeroDivisionError: division by zero")
        case "m.nothing":
            say(type="metric_result", id=message["id"], score=None, status="not_evaluated")
        case _:
            score = float(len(message["actual"]))
            say(type="metric_result", id=message["id"], score=score, status="passed", turns=[score])


def main() -> None:
    sessions = int(sys.argv[1])
    at_start(sys.argv[2] if len(sys.argv) > 2 else "")
    states: dict[str, dict] = {}
    for line in sys.stdin:
        message = json.loads(line)
        session = message.get("session")
        match message["type"]:
            case "hello":
                about = {"options": json.dumps(message["options"])}
                say(type="ready", protocol=1, sessions=sessions, about=about)
            case "start" if message["state"].get("refuse"):
                say(type="turn_failed", session=session, kind="raised", message="no such user")
            case "start" if message["state"].get("exit"):
                os._exit(4)
            case "start":
                states[session] = dict(message["state"])
                say(type="started", session=session)
                if states[session].get("deaf"):
                    time.sleep(600)
            case "turn":
                text = message["content"]["parts"][0]["text"]
                work = (session, text, states[session])
                threading.Thread(target=turn, args=work, daemon=True).start()
            case "end":
                say(type="ended", session=session, state=states.pop(session, None))
            case "metric":
                threading.Thread(target=metric, args=(message,), daemon=True).start()
            case "bye":
                break


main()
