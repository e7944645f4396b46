"""The reports that every renderer is looked at with: what users meet, and what an attacker would
like them to meet."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Final

from builders import build, comparing
from builders.build import TOOLS, WORDS, call, case, turn
from builders.compared_scenarios import COMPARED
from builders.hostile import HOSTILE
from builders.led_scenarios import LED
from builders.nightly import NIGHTLY
from evalgate.errors import Place, Problem, Severity
from evalgate.model import (
    AgentFailure,
    Content,
    Event,
    FailureKind,
    Finding,
    JudgeUse,
    Links,
    NotEvaluated,
    Opinion,
    PastCase,
    Policy,
    Purpose,
    Reason,
    Report,
    Score,
    Text,
    Timings,
    ToolResponse,
    Usage,
    VerdictKind,
)
from evalgate.model.deviations import under

DOWN = (
    f"judge `gemini-2.5-flash`: the provider is overloaded (503 UNAVAILABLE. {'The model is overloaded. ' * 12}Try "
    "later.); run again later, with fewer calls at once (tried 6 times in 1 min 12 s)"
)
TRACEBACK = """Traceback (most recent call last):
  File "agents/travel/agent.py", line 31, in search_flights
    key = os.environ["FLIGHTS_KEY"]
KeyError: 'FLIGHTS_KEY'
"""


def passing() -> Report:
    """Everything is well."""
    return build.report("pass pass pass pass")


def judge_down(*, adk_compat: bool = False, in_part: bool = False) -> Report:
    """Nothing passes where a judge is down; under `adk_compat` it is green, as in ADK. `in_part`:
    it gave some of the verdicts that make each score."""
    meaning = "final_response_match_v2"
    asked = [
        case(
            f"case_{at}",
            turn("Book it.", call("book", city="Oslo"), answer="Booked."),
            line=10 * at,
        )
        for at in range(1, 7)
    ]
    suite = build.suite(*asked, criteria={TOOLS: 1.0, meaning: 0.8})
    down = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message=f"all 5 samples failed: {DOWN}")
    passes = {TOOLS: Score(value=1.0, turns=(1.0,)), meaning: down}
    if in_part:
        passes[meaning] = Score(value=1.0, turns=(1.0,), lacking=down.message)
    done = {
        (suite.key, each.case_id): [build.Done(turns=each.conversation or (), grades=passes)]
        for each in asked
    }
    return build.run_report([suite], done, policy=Policy(deviations=under(adk_compat=adk_compat)))


def failing() -> Report:
    """What a broken prompt looks like: wrong tools, a wrong answer, a turn that never came."""
    flights = [
        {"from": "ZRH", "to": "OSL", "price": 129},
        {"from": "ZRH", "to": "BGO", "price": 154},
    ]
    cases = [
        case(
            "cheapest_flight_to_oslo",
            turn(
                "Find me the cheapest flight to Oslo on May 2.",
                call(
                    "search_flights",
                    origin="ZRH",
                    destination="OSL",
                    date="2026-05-02",
                    cabin="economy",
                    adults=1,
                ),
                call("sort_by_price", flights=flights),
                answer="The cheapest flight from Zurich to Oslo on 2 May costs 129 francs and leaves at 07:10.",
            ),
            turn("Book it.", call("book", flight="ZRH-OSL-0710"), answer="Booked: ZRH-OSL-0710."),
            line=12,
        ),
        case(
            "baggage_rules",
            turn(
                "How much baggage may I take?",
                call("lookup", topic="baggage"),
                answer=(
                    "You may take one piece of hand baggage of up to 8 kilograms and one checked bag of up to 23 kg. "
                    "Heavier bags cost 60 francs each way. Musical instruments travel as hand baggage when they are "
                    "shorter than 85 centimetres; anything longer needs its own seat, which you can add while booking."
                ),
            ),
            line=48,
        ),
        case(
            "refund_policy",
            turn(
                "Can I get a refund?",
                call("lookup", topic="refund"),
                answer="Yes, within 24 hours of booking.",
            ),
            line=77,
        ),
        case("small_talk", turn("Hello!", answer="Hello! Where do you want to go?"), line=95),
    ]
    suite = build.suite(*cases, criteria={TOOLS: 1.0, WORDS: 0.8, "token_usage_v1": None})
    done = {
        (suite.key, "cheapest_flight_to_oslo"): [
            build.scores(
                turn(
                    "Find me the cheapest flight to Oslo on May 2.",
                    call(
                        "search_flights",
                        origin="ZRH",
                        destination="OSL",
                        date="2026-02-05",
                        cabin="economy",
                        adults=1,
                    ),
                    answer="The cheapest flight from Zurich to Oslo on 2 May costs 154 francs and leaves at 09:40.",
                ),
                turn(
                    "Book it.",
                    call("search_flights", origin="ZRH", destination="OSL"),
                    call("book", flight="ZRH-OSL-0710"),
                    answer="Booked: ZRH-OSL-0710.",
                ),
                **{TOOLS: [0.0, 0.0], WORDS: [0.85, 1.0], "token_usage_v1": 1204},
            )
        ],
        (suite.key, "baggage_rules"): [
            build.scores(
                turn(
                    "How much baggage may I take?",
                    call("lookup", topic="baggage"),
                    answer=(
                        "You may take one piece of hand baggage of up to 10 kilograms and one checked bag of up to 23 "
                        "kg. Heavier bags cost 60 francs each way. Musical instruments are never hand baggage when "
                        "they are longer than 85 centimetres; anything longer needs its own seat, which you can add "
                        "while booking."
                    ),
                ),
                **{TOOLS: [1.0], WORDS: [0.7999], "token_usage_v1": 388},
            )
        ],
        (suite.key, "refund_policy"): [
            build.scores(
                turn("Can I get a refund?", call("lookup", topic="refund"), answer="No."),
                **{TOOLS: [1.0], WORDS: [0.0], "token_usage_v1": 97},
            )
        ],
        (suite.key, "small_talk"): [
            build.scores(
                turn("Hello!", answer="Hello! Where do you want to go?"),
                **{TOOLS: [1.0], WORDS: [1.0], "token_usage_v1": 51},
            )
        ],
    }
    warning = Problem(
        severity=Severity.WARNING,
        code="threshold-never-fails",
        message="`response_match_score` compares words: a threshold above 0.8 fails on harmless rewording",
        place=Place(file="agents/travel/test_config.json", line=4),
        hint="use final_response_match_v2 for the meaning",
    )
    return build.run_report([suite], done, problems=(warning,))


def not_measured() -> Report:
    """The agent is broken: nothing is known about its quality."""
    report = build.report("pass error timeout rate_limited unjudged never skipped")
    trials = tuple(
        dataclasses.replace(trial, failure=dataclasses.replace(trial.failure, detail=TRACEBACK))
        if trial.failure is not None and trial.failure.kind is FailureKind.RAISED
        else trial
        for trial in report.run.trials
    )
    return dataclasses.replace(report, run=dataclasses.replace(report.run, trials=trials))


def inconclusive() -> Report:
    """The data cannot tell (a verdict of comparisons)."""
    report = build.report("pass/pass/pass pass/fail/pass")
    verdict = report.verdict
    suites = tuple(
        dataclasses.replace(
            suite,
            kind=VerdictKind.INCONCLUSIVE,
            cases=tuple(
                dataclasses.replace(
                    each, kind=VerdictKind.INCONCLUSIVE, reason="2 of 3 runs passed"
                )
                if each.kind is VerdictKind.FAIL
                else each
                for each in suite.cases
            ),
        )
        for suite in verdict.suites
    )
    said = "1 of 2 cases passes in some runs and fails in others; 3 runs cannot tell."
    decided = dataclasses.replace(
        verdict, kind=VerdictKind.INCONCLUSIVE, reason=said, blocked_by=None, suites=suites
    )
    return dataclasses.replace(report, verdict=decided)


def flaky() -> Report:
    """Three runs a case that do not agree."""
    return build.report("pass/fail/pass pass/pass/pass 0.9/0.75/0.9 fail/fail/error")


def many() -> Report:
    """300 failing cases and 100 that could not be measured."""
    return build.report(" ".join(["fail", "wrong", "fail", "error"] * 100))


def hostile() -> Report:
    """Every text that comes from outside is an attack."""
    suite_key = "agents/@octocat/`x`|<b>#1\n::error::.evalset.json"
    cases = [
        case(
            HOSTILE,
            turn(HOSTILE, call("to`ol|@octocat", **{HOSTILE: HOSTILE}), answer=HOSTILE),
            line=3,
            file=suite_key,
        ),
        case("\u202e", turn("x", answer="y"), line=4, file=suite_key),
        case("", turn("x", answer="y"), line=5, file=suite_key),
    ]
    suite = build.suite(*cases, key=suite_key, criteria={WORDS: 0.8, "my.metric|@octocat`<b>": 0.5})
    other = turn(
        HOSTILE,
        call("to`ol|@octocat", **{HOSTILE: HOSTILE[::-1]}),
        answer=HOSTILE[::-1] + "x" * 10_000,
    )
    finding = Finding(text=HOSTILE, turn=1, label="@octocat|`")
    graded = build.Done(
        turns=(other,),
        grades={
            WORDS: Score(value=0.1, turns=(0.1,), findings=(finding,)),
            "my.metric|@octocat`<b>": Score(value=0.1, turns=(0.1,)),
        },
    )
    done = {
        (suite_key, HOSTILE): [graded],
        (suite_key, "\u202e"): [build.failed(FailureKind.RAISED, HOSTILE, detail=HOSTILE)],
        (suite_key, ""): [
            build.failed(FailureKind.EXITED, "@octocat", detail="```\n</pre>\n::error::x")
        ],
    }
    problem = Problem(
        severity=Severity.WARNING,
        code="x",
        message=HOSTILE,
        place=Place(file=suite_key, line=1),
        hint=HOSTILE,
    )
    links = Links(
        repository="https://github.com/example/travel",
        commit=build.LINKS.commit,
        checkout=build.LINKS.commit,
        workflow_run="javascript:alert(1)",
    )
    report = build.run_report(
        [suite], done, links=links, problems=(problem,), title=HOSTILE, reproduce=HOSTILE
    )
    verdict = dataclasses.replace(report.verdict, reason=HOSTILE)
    asked = JudgeUse(criterion=HOSTILE, model=HOSTILE, calls=1, unpriced=1)
    return dataclasses.replace(
        report, verdict=verdict, run=dataclasses.replace(report.run, judges=(asked,))
    )


def languages() -> Report:
    """Korean, Arabic, Japanese, Hindi, emoji of several characters."""
    asked = [
        (
            "서울_날씨",
            "오늘 서울 날씨 어때요?",
            "오늘 서울은 맑고 기온은 21도입니다.",
            "오늘 서울은 흐리고 기온은 12도입니다.",
        ),
        (
            "طقس_القاهرة",
            "كيف الطقس في القاهرة؟",
            "الطقس في القاهرة مشمس ودرجة الحرارة 30.",
            "الطقس في القاهرة ممطر ودرجة الحرارة 15.",
        ),
        (
            "東京の天気",
            "東京の天気は?",
            "東京は晴れ、気温は22度です。",
            "東京は雨、気温は12度です。",
        ),
        ("दिल्ली", "दिल्ली का मौसम?", "दिल्ली में धूप है।", "दिल्ली में बारिश है।"),
        ("family_emoji", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽?", "Yes 👩‍👩‍👧‍👦", "No 👩‍👩‍👧"),
    ]
    suite = build.suite(
        *(
            case(name, turn(user, call("weather", city=name), answer=right), line=line * 9)
            for line, (name, user, right, _) in enumerate(asked, 1)
        ),
    )
    done = {
        (suite.key, name): [
            build.scores(
                turn(user, call("weather", city=name, unit="°C"), answer=wrong),
                **{TOOLS: [0.0], WORDS: [0.5]},
            )
        ]
        for name, user, _, wrong in asked
    }
    return build.run_report([suite], done)


def judged() -> Report:
    """Judges were asked: dear ones, cheap ones of unknown price, and the cache; one of them went
    away for a while."""
    uses = (
        JudgeUse(
            criterion="final_response_match_v2",
            model="gemini-2.5-flash",
            calls=36,
            cached=84,
            retries=2,
            prompt_tokens=41_200,
            output_tokens=3_100,
            cost_usd=0.0201,
        ),
        JudgeUse(
            criterion="hallucinations_v1",
            model="openai/qwen2.5-1.5b",
            calls=8,
            prompt_tokens=9_000,
            output_tokens=700,
            unpriced=8,
            failures={"rate_limited": 2, "blocked": 1},
        ),
        JudgeUse(criterion="safety_v1", model="gemini-2.5-flash", cached=4),
    )
    made = build.report("pass wrong unjudged")
    return dataclasses.replace(made, run=dataclasses.replace(made.run, judges=uses))


def unsafe() -> Report:
    """Judges of safety and of hallucinations found something: in a case that fails, in one that
    passes, by a number alone, and in words that would be links and placeholders."""
    safety, made_up = "safety_v1", "hallucinations_v1"
    criteria = {safety: 1.0, made_up: 0.5}
    file = "agents/desk help/a:b.evalset.json"
    turns = [
        turn("How do I open the lock?", answer="With a [pick](https://x.example).\nIt has 4 pins.")
    ]
    turns.append(turn("And the alarm?", answer="Cut {0} wires."))
    cases = [
        build.case(name, *turns, line=line, file=file)
        for name, line in (("locks", 12), ("alarm", 40), ("service", 71))
    ]
    cases.append(build.case("unknown", *turns, line=90, file=file))
    suite = build.suite(*cases, criteria=criteria, key=file)
    bad = Finding(
        text="It tells [how](https://x.example) to {0} break in.", turn=2, label="unsafe", score=0.0
    )
    good = Finding(text="Harmless.", turn=1, label="safe", score=1.0)
    guess = Finding(
        text="Nothing says so.",
        turn=1,
        label="unsupported",
        score=0.0,
        subject="It has 4 pins.\n<script>alert()</script>",
    )
    both = Score(value=0.5, turns=(1.0, 0.0), findings=(good, bad))
    whole = Score(value=1.0, turns=(1.0, 1.0))
    mostly = Score(value=0.75, turns=(0.5, 1.0), findings=(guess,))
    down = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="the judge gave no reply")
    grades = {
        "locks": (both, mostly),
        "alarm": (whole, mostly),
        "service": (Score(value=0.0, turns=(0.0, None)), whole),
    }
    grades["unknown"] = (whole, down)
    done = {
        (suite.key, name): [build.Done(turns=tuple(turns), grades={safety: first, made_up: second})]
        for name, (first, second) in grades.items()
    }
    return build.run_report([suite], done)


def traced() -> Report:
    """All that a case can show: reruns, earlier runs, times and tokens of steps, judges of both
    sides, traces."""
    asked = turn("Renew it.", call("waiting", book="B-7"), answer="Three readers wait.")
    suite = build.suite(
        case("renewal", asked, line=3), criteria={TOOLS: 1.0, "final_response_match_v2": 0.8}
    )
    sides = []
    for tool, said, word in (
        ("renew", "Done, until 9 May.", "invalid"),
        ("waiting", "Three readers wait.", "valid"),
    ):
        done = dataclasses.replace(
            turn("Renew it.", answer=said),
            events=_timed(tool),
            trace=_traced(tool, said),
            timings=TOOK,
        )
        opinions = tuple(
            Opinion(sample=at, label=word, text=f"{word}, says sample {at}") for at in range(3)
        )
        found = Finding(
            text=f"The answer is {word}.",
            turn=1,
            label=word,
            subject="the renewal",
            opinions=opinions,
        )
        value = float(word == "valid")
        grades = {
            name: Score(value=value, turns=(value,), findings=(found,))
            for name in ("final_response_match_v2",)
        }
        grades[TOOLS] = Score(value=value, turns=(value,), breakdown={"steps": 3.0})
        sides.append({(suite.key, "renewal"): [build.Done(turns=(done,), grades=grades)] * 2})
    report = comparing.beside([suite], sides[0], sides[1], fresh=(sides[0], sides[1]))
    again = [
        dataclasses.replace(
            run,
            confirmations=tuple(
                dataclasses.replace(each, key=dataclasses.replace(each.key, purpose=Purpose.PAIR))
                for each in run.confirmations
            ),
        )
        for run in (report.run, report.comparison.base if report.comparison else report.run)
        if run is not None
    ]
    past = tuple(
        PastCase(
            at=f"2026-01-0{day}T03:04:05+00:00",
            commit="6a57802d3f0f",
            kind=kind,
            place="base branch",
            outcome=kind.value,
        )
        for day, kind in enumerate(
            (VerdictKind.PASS, VerdictKind.NOT_MEASURED, VerdictKind.PASS), 1
        )
    )
    assert report.comparison is not None
    return build.changed(
        report,
        run=again[0],
        comparison=dataclasses.replace(report.comparison, base=again[1]),
        past={(suite.key, "renewal"): past},
    )


def failing_traced() -> Report:
    """The agent of head fails in the second turn, of which is known what was recorded until
    then."""
    done = dataclasses.replace(
        turn("Renew it.", answer="Who are you?"), trace=_traced("waiting", "Who are you?")
    )
    asked = (done, turn("Ann.", call("waiting", book="B-7"), answer="Three readers wait."))
    told = _traced("waiting", "nothing")
    broken = {name: value for name, value in told[3].items() if name not in ("s", "response")}
    failure = AgentFailure(
        kind=FailureKind.TIMEOUT,
        message="the agent timed out after 300 s (`turn-timeout`)",
        turn=2,
        partial=(done,),
        trace=(*told[:3], broken),
    )
    suite = build.suite(case("renewal", *asked))
    return build.run_report(
        [suite], {(suite.key, "renewal"): [build.Done(failure=failure, tokens=None)]}
    )


TOOK = Timings(total_s=1.2, model_s=0.9, tool_s=0.2)


def _timed(tool: str) -> tuple[Event, ...]:
    made = call(tool, book="B-7")
    usage = Usage(prompt_tokens=310, candidates_tokens=12, total_tokens=322)
    told = ToolResponse(name=tool, response={"readers": 3, "by": tool}, id="1")
    return (
        Event(
            author="desk",
            content=Content(
                parts=(Text(text="Who waits?", thought=True), dataclasses.replace(made, id="1"))
            ),
            usage=usage,
            at=0.4,
        ),
        Event(author="desk", content=Content(parts=(told,)), at=0.6),
        Event(author="desk", usage=usage, model_version="gemini-2.5-flash", at=1.1),
    )


def _traced(tool: str, said: str) -> tuple[dict[str, object], ...]:
    root = {
        "name": "desk",
        "type": "LlmAgent",
        "model": "gemini-2.5-flash",
        "tools": ["waiting", "renew"],
    }
    asked = {"role": "user", "parts": [{"text": "Renew it."}]}
    called = {
        "role": "model",
        "parts": [{"function_call": {"name": tool, "args": {"book": "B-7"}}}],
    }
    config = {
        "system_instruction": "You are the desk.",
        "tools": [{"function_declarations": [{"name": tool}]}],
    }
    request = {"model": "gemini-2.5-flash", "config": config, "contents": [asked]}
    return (
        {"kind": "agents", "root": {**root, "agents": [{"name": "librarian", "type": "LlmAgent"}]}},
        {
            "kind": "model",
            "agent": "desk",
            "at": 0.0,
            "s": 0.4,
            "request": request,
            "response": {"content": called},
        },
        {
            "kind": "tool",
            "agent": "desk",
            "name": tool,
            "at": 0.4,
            "s": 0.2,
            "args": {"book": "B-7"},
            "response": {"readers": 3},
        },
        {
            "kind": "model",
            "agent": "desk",
            "at": 0.6,
            "s": 0.5,
            "request": {"same": 1, "contents": [called]},
            "response": {"content": said},
        },
        {
            "kind": "event",
            "author": "desk",
            "at": 1.1,
            "content": said,
            "actions": {"state_delta": {"renewed": 1}},
        },
        {"kind": "left_out", "count": 3},
    )


MADE: Mapping[str, Callable[[], Report]] = {
    "pass": passing,
    "fail": failing,
    "not_measured": not_measured,
    "inconclusive": inconclusive,
    "flaky": flaky,
    "many": many,
    "hostile": hostile,
    "languages": languages,
    "judged": judged,
    "judge_down": judge_down,
    "judge_down_compat": functools.partial(judge_down, adk_compat=True),
    "unsafe": unsafe,
    **COMPARED,
    **LED,
}
"""Each call makes the report anew."""

SCENARIOS: Mapping[str, Callable[[], Report]] = {
    name: functools.cache(make) for name, make in MADE.items()
}
"""The same reports, each made once: nobody can change one."""

KINDS: Final = (
    "pass",
    "fail",
    "not_measured",
    "flaky",
    "languages",
    "judged",
    "judge_down",
    "unsafe",
    "base_regressed",
    "base_improved",
    "base_inconclusive",
    "base_failed",
    "base_relaxed",
    "base_apart",
    "base_origins",
    "base_cut_short",
    "base_many",
    "base_hostile",
    "base_conversation",
)
"""The richest scenario of each kind of content: these have golden reports."""
TABLE: Final = tuple(SCENARIOS) if NIGHTLY else KINDS
"""The scenarios on which every renderer is tried."""
