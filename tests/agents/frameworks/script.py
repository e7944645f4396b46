"""What the agents of all four frameworks share: the user's message is the model's script, one line
a call of the model.

say TEXT | call NAME JSON | raise WHAT
"""

import json
import os
import time
from pathlib import Path


def weather(city: str, unit: str = "C") -> str:
    """The weather in a city.

    Args:
        city: where
        unit: of the temperature
    """
    trace(f"weather {city} {unit}")
    return f"sunny in {city}"


def broken(what: str) -> str:
    """Raises.

    Args:
        what: it says
    """
    trace(f"broken {what}")
    raise ValueError(what)


def block(seconds: float) -> str:
    """Waits, as a plain function does.

    Args:
        seconds: how long
    """
    time.sleep(seconds)
    return "done"


TOOLS = (weather, broken, block)


def trace(what):
    if "TRACE" in os.environ:
        with Path(os.environ["TRACE"]).open("a") as file:
            file.write(what + "\n")


def step(text, answered):
    """The line of a script for the next call of the model, after so many tools have answered: verb,
    name, arguments."""
    lines = [line for line in text.splitlines() if line.strip()]
    line = lines[answered] if answered < len(lines) else "say (the script is over)"
    verb, _, rest = line.partition(" ")
    if verb == "raise":
        raise problem(rest)
    if verb == "call":
        name, _, arguments = rest.partition(" ")
        return verb, name, json.loads(arguments or "{}")
    return verb, rest, {}


def problem(what):
    if what.isdigit():
        import httpx

        request = httpx.Request("POST", "http://model.test")
        answer = httpx.Response(int(what), request=request)
        return httpx.HTTPStatusError(f"status {what}", request=request, response=answer)
    return ValueError(what)
