"""The library desk of tests/data/ces as a program that speaks the agent protocol
(docs/agent-protocol.md).

It takes the turns before (`history`), sets variables, asks before it runs a tool, and answers what
the evaluations say. `FAULT` in its environment makes it do one thing wrong."""

import itertools
import json
import os
import sys

FAULT = os.environ.get("DESK_FAULT", "")
LOANS = {"loan_id": "L-77", "due": "2027-03-04", "renewals_left": 1}
numbers = itertools.count(1)


def send(kind, session=None, **more):
    print(
        json.dumps({"type": kind, **({"session": session} if session else {}), **more}), flush=True
    )


def event(session, parts, *, author="desk", final=False):
    content = {"role": "model", "parts": parts}
    send("event", session, author=author, content=content, final=final)


def tool(desk, name, args, real):
    call = f"c{next(numbers)}"
    event(
        desk["session"],
        [{"function_call": {"name": name, "args": args, "id": call}}],
        author="loans",
    )
    result = real
    if desk["asks"]:
        send("tool_call", desk["session"], call=call, name=name, args=args)
        told = json.loads(sys.stdin.readline())
        if told.get("refused"):
            raise RuntimeError(told["refused"])
        result = real if told.get("run") else told.get("response")
    response = result if isinstance(result, dict) else {"result": result}
    event(
        desk["session"],
        [{"function_response": {"name": name, "response": response, "id": call}}],
        author="loans",
    )
    return result


def answer(desk, text):
    state = desk["state"]
    if "welcome" in text:
        return f"Hello, this is the {state.get('branch', 'main').title()} library desk. How can I help?"
    if "renew" in text:
        move = {"name": "transfer_to_agent", "args": {"agent_name": "loans"}}
        event(desk["session"], [{"function_call": move}])
        args = {"patron_id": "P-2041", "title": "The Tidal Atlas"}
        loan = tool(desk, "find_loan", args, {"loan_id": "none of the mock"})
        return f"I found {loan['loan_id']}, due 4 March 2027. Shall I renew it?"
    if text.startswith("Yes"):
        if FAULT == "raises":
            raise RuntimeError("the desk is closed")
        weeks = 2 if FAULT == "weeks" else 3
        made = tool(
            desk, "renew_loan", {"loan_id": desk["loan"], "weeks": weeks}, {"due": "2027-03-25"}
        )
        state["last_renewed_loan"] = desk["loan"]
        return f"It is now due {'25 March 2027' if made.get('due') == '2027-03-25' else 'never'}."
    if "P-2041" in text:
        blocked = tool(
            desk, "block_card", {"patron_id": "P-2041", "reason": "lost"}, {"status": "NOT MOCKED"}
        )
        return f"Your card is {blocked['status'].lower()}. You can collect the replacement card at the Riverside branch."
    return "What is your patron id?"


def parts_of(turn):
    for step in (turn.get("intermediate_data") or {}).get("invocation_events") or ():
        yield from (step.get("content") or {}).get("parts") or ()


desks = {}
asks = False
for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session")
    if message["type"] == "hello":
        asks = bool(message.get("tools"))
        more = {} if FAULT == "no history" else {"history": True}
        send("ready", protocol=1, sessions=1, tools=asks, **more)
    elif message["type"] == "start":
        desk = {
            "session": session,
            "state": message.get("state") or {},
            "asks": asks,
            "loan": "L-77",
        }
        desks[session] = desk
        for part in (part for turn in message.get("history") or () for part in parts_of(turn)):
            found = part.get("function_response", {}).get("response", {}).get("output", {})
            desk["loan"] = found.get("loan_id", desk["loan"])
        send("started", session)
    elif message["type"] == "turn":
        desk = desks[session]
        desk["state"] |= message.get("state") or {}
        try:
            said = answer(
                desk, "".join(part.get("text", "") for part in message["content"]["parts"])
            )
        except RuntimeError as error:
            send("turn_failed", session, message=str(error))
            continue
        event(session, [{"text": said}], final=True)
        send("turn_end", session, state=desk["state"])
    elif message["type"] == "end":
        send("ended", session, state=desks.pop(session, {}).get("state"))
    else:
        break
