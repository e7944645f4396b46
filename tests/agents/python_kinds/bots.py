"""Callables of every kind."""

import asyncio
import sys
import threading
import time


def echo(text):
    return f"you said {text}"


async def echo_async(text):
    await asyncio.sleep(0)
    return f"you said {text}"


def with_state(text, state):
    state["turns"] = state.get("turns", 0) + 1
    return f"turn {state['turns']}"


def with_messages(messages):
    return " | ".join(f"{message['role']}: {message['text']}" for message in messages)


def with_content(content, session_id):
    return f"{len(content['parts'])} parts, {'an id' if session_id else 'no id'}"


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, text):
        self.count += 1
        return str(self.count)


class CounterAsync(Counter):
    async def __call__(self, text):
        return super().__call__(text)


def full_answer(text):
    return {
        "text": "It is sunny.",
        "tool_calls": [
            {"name": "weather", "args": {"city": text}, "response": "sunny"},
            {"name": "log"},
        ],
        "state": {"asked": text},
        "usage_metadata": {"prompt_token_count": 5},
        "model_version": "m-1",
    }


def steps(text):
    yield {"tool_call": {"name": "weather", "args": {}}}
    yield {"author": "sub", "text": "thinking about it"}
    yield "done"


async def steps_async(text):
    for step in steps(text):
        yield step


def silent(text):
    return None


def number(text):
    return 42


def unknown_key(text):
    return {"answer": "x"}


def broken(text):
    raise KeyError("the bot broke")


def exhausted(text):
    return next(iter(()))


def leave(text):
    sys.exit(3)


def slow(text):
    time.sleep(0.5)
    return threading.current_thread().name


def needs_more(text, database):
    return text


async def helper_bot(text):
    return text


def hands_back(text):
    return helper_bot(text)


NOT_CALLABLE = 1


def seven(eval_metric, actual, expected, scenario):
    return 7


def read_tide(harbour, hour=12):
    return {"metres": 0.4, "harbour": harbour, "at": hour}


def with_tools(text, tools):
    told = tools.wrap(read_tide)(text)
    yield {"tool_call": {"name": "read_tide", "args": {"harbour": text}}}
    yield {"tool_response": {"name": "read_tide", "response": told}}
    yield f"{told['metres']} m"


async def with_tools_async(text, tools):
    # blocks the loop, as any such tool would, and is answered all the same
    told = tools.wrap(read_tide)(text)
    again = await tools.call_async("read_tide", {"harbour": text, "hour": 12}, read_tide)
    return f"{told['metres']} m, {again['metres']} m"
