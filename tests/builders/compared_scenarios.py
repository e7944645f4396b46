"""Reports on head beside base that every renderer is looked at with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from builders import build, comparing
from builders.build import TOOLS, WORDS, Done, call, case, turn
from builders.comparing import BASE_SHA, RERUN
from builders.hostile import HOSTILE
from evalgate.errors import Place
from evalgate.model import (
    AgentDescription,
    BaseOrigin,
    BaseSource,
    Case,
    CaseStatus,
    Comparison,
    CriterionJudge,
    EditKind,
    Edits,
    Finding,
    GateEdit,
    Invocation,
    JudgeIdentity,
    JudgeUse,
    Links,
    LoadedAgent,
    LoadedTool,
    Opinion,
    Policy,
    Report,
    Run,
    Score,
    ThresholdRule,
    Trend,
)

MEANING = "final_response_match_v2"
TOKENS = "token_usage_v1"
DESK = "agents/library/desk.evalset.json"
ASKED = (
    (
        "renew_reserved_book",
        "Please renew Dune for me.",
        "Three readers are waiting for it, so I cannot renew Dune.",
    ),
    ("renew_free_book", "Can I keep Emma for longer?", "Emma is renewed until 9 May."),
    ("opening_hours_sunday", "Are you open on Sunday?", "The library is closed on Sundays."),
    (
        "fine_of_a_late_book",
        "What do I owe for a book that is 4 days late?",
        "You owe 2 francs: 50 centimes a day.",
    ),
)
WAITING = Finding(
    text="The answer says that the book was renewed; the reference refuses, because other readers are waiting for it.",
    turn=1,
    label="invalid",
    score=0.0,
    opinions=tuple(
        Opinion(sample=number, label="invalid", text="renewed, not refused") for number in range(3)
    ),
    spared=2,
)


def _desk() -> list[Case]:
    """20 cases at a library's desk."""
    named = [
        (f"{name}_{number}", user, answer) for number in range(1, 6) for name, user, answer in ASKED
    ]
    return [
        case(
            name,
            turn(
                user,
                call("find_book", title="Dune"),
                call("waiting_readers", book_id="B-7"),
                answer=answer,
            ),
            line=8 + 14 * at,
            file=DESK,
        )
        for at, (name, user, answer) in enumerate(named)
    ]


def _right(asked: Case, *, tokens: float) -> Done:
    (said,) = asked.conversation or ()
    grades = {
        TOOLS: Score(value=1.0, turns=(1.0,)),
        MEANING: Score(value=1.0, turns=(1.0,)),
        TOKENS: Score(value=tokens),
    }
    return Done(turns=(said,), grades=grades, tokens=int(tokens))


def _renews(asked: Case, *, tokens: float) -> Done:
    (said,) = asked.conversation or ()
    did = turn(
        build.text_of(said),
        call("find_book", title="Dune"),
        call("renew_loan", book_id="B-7", days=28),
        answer="Of course! Dune is renewed until 9 May.",
    )
    grades = {
        TOOLS: Score(value=0.0, turns=(0.0,)),
        MEANING: Score(value=0.0, turns=(0.0,), findings=(WAITING,)),
        TOKENS: Score(value=tokens),
    }
    return Done(turns=(did,), grades=grades, tokens=int(tokens))


def regressed() -> Report:
    """A prompt was made shorter: 3 of 20 cases broke, in each of five runs but for one; one case
    was flaky before."""
    cases = _desk()
    suite = build.suite(*cases, key=DESK, criteria={TOOLS: 1.0, MEANING: 0.8, TOKENS: None})
    uses = tuple(
        dataclasses.replace(use, lower_is_better=use.name == TOKENS) for use in suite.criteria
    )
    suite = dataclasses.replace(suite, criteria=uses)
    broken, flaky = (
        {"renew_reserved_book_1": 5, "renew_reserved_book_2": 5, "renew_reserved_book_4": 4},
        {1},
    )
    head, base = {}, {}
    for at, asked in enumerate(cases):
        wrong = broken.get(asked.case_id, 0)
        key = (suite.key, asked.case_id)
        head[key] = [
            (_renews if run < wrong else _right)(asked, tokens=float(388 + 7 * run + at))
            for run in range(5)
        ]
        base[key] = [
            (_renews if at in flaky and run == 2 else _right)(
                asked, tokens=float(512 + 5 * run + at)
            )
            for run in range(5)
        ]
        if at in flaky:
            head[key] = [_right(asked, tokens=390.0)] * 4 + [_renews(asked, tokens=371.0)]
    judge = JudgeUse(
        criterion=MEANING,
        model="gemini-2.5-flash",
        calls=318,
        cached=282,
        prompt_tokens=250_000,
        cost_usd=0.0421,
    )
    made = comparing.beside([suite], head, base, judged=frozenset({MEANING}), policy=Policy())
    made = dataclasses.replace(made, run=dataclasses.replace(made.run, judges=(judge,)))
    return with_agents(with_past(with_fingerprints(made)), DESK_THEN, DESK_NOW)


DESK_THEN = AgentDescription(
    agents=(
        LoadedAgent(
            name="desk",
            kind="LlmAgent",
            model="gemini-2.5-pro",
            instruction="You work at the desk of a library.\nAlways look the book up first.\n"
            "Ask how many readers wait for a book before you renew it.\nNever renew a book that others wait for.\n"
            "Be kind, and answer in one sentence.",
            settings={"temperature": "0.2"},
            tools={
                "find_book": LoadedTool(description="Finds a book.", parameters={"title": "str"}),
                "waiting_readers": LoadedTool(parameters={"book_id": "str"}),
                "renew_loan": LoadedTool(parameters={"book_id": "str", "days": "int = 28"}),
            },
        ),
    ),
    packages={"google-adk": "2.12.1", "google-genai": "1.20.0", "pydantic": "2.11.1"},
    files={"agents/library/agent.py": "0123456789ab", "agents/library/tools.py": "ba9876543210"},
)
_DESK_NOW = dataclasses.replace(
    DESK_THEN.agents[0],
    instruction="You work at the desk of a library.\nAlways look the book up first.\nBe kind, and answer briefly.",
    tools={
        "find_book": LoadedTool(
            description="Finds a book by its title.", parameters={"title": "str"}
        ),
        "renew_loan": LoadedTool(parameters={"book_id": "str", "days": "int"}),
    },
)
DESK_NOW = AgentDescription(
    agents=(_DESK_NOW,),
    packages={"google-adk": "2.13.0", "google-genai": "1.20.0", "pydantic": "2.11.7"},
    files={"agents/library/agent.py": "ffffffffffff", "agents/library/tools.py": "ba9876543210"},
)


def with_agents(report: Report, then: AgentDescription, now: AgentDescription) -> Report:
    """What the agent of each side is made of."""
    comparison = report.comparison
    assert comparison is not None
    assert comparison.base is not None

    def described(run: Run, told: AgentDescription) -> Run:
        keys = {suite.agent.key for suite in run.suites}
        return dataclasses.replace(run, descriptions=dict.fromkeys(keys, told))

    beside = dataclasses.replace(comparison, base=described(comparison.base, then))
    return dataclasses.replace(report, run=described(report.run, now), comparison=beside)


def with_past(report: Report) -> Report:
    """Twelve runs of the base branch: one fell, one was not measured once, one has grown."""
    means = {
        TOOLS: (0.98, 0.99, 1.0, 0.97, 0.99, 0.99, 0.86, 0.99, 1.0, 1.0, 0.98, 0.99),
        MEANING: (0.95, 0.95, None, 0.9, 0.95, 0.97, 0.99, 0.99, 0.98, 0.99, 0.99, 0.99),
        TOKENS: (388, 391, 402, 420, 455, 470, 490, 500, 510, 515, 520, 532),
    }
    now = {TOOLS: 0.85, MEANING: 0.85, TOKENS: 410.7}
    return build.changed(
        report,
        trends=tuple(
            Trend(
                criterion=name,
                means=tuple(None if value is None else float(value) for value in each),
                current=now[name],
                since="2025-12-18T03:04:05+00:00",
                until="2026-01-01T03:04:05+00:00",
            )
            for name, each in means.items()
        ),
    )


def with_fingerprints(report: Report) -> Report:
    """Both sides as they would tell of themselves: the prompt and a package differ, the model and
    the judge do not."""
    sides = [
        dataclasses.replace(
            run,
            inputs={"a": code},
            models=frozenset({"gemini-2.5-pro"}),
            agents={
                "a": {
                    "framework": "google-adk",
                    "framework_version": version,
                    "python": "3.11.9",
                    "requirements": packages,
                }
            },
        )
        for run, code, version, packages in (
            (report.run, "5b1f0c2d3e4a5968", "2.13.0", "9e107d9d372bb682"),
            (
                report.comparison.base if report.comparison else None,
                "c3fcd3d76192e400",
                "2.12.1",
                "e4d909c290d0fb1c",
            ),
        )
        if run is not None
    ]
    comparison = (
        None
        if report.comparison is None
        else dataclasses.replace(report.comparison, base=sides[-1])
    )
    asked = JudgeIdentity(model="gemini-2.5-flash", prompt_version="3", num_samples=5)
    return build.changed(
        report,
        run=sides[0],
        comparison=comparison,
        criterion_judges=(CriterionJudge(criterion=MEANING, judge=asked),),
    )


def reruns() -> Report:
    """One case of eight is broken, which fresh pairs tell; one passes in them; one fails on the
    base too."""
    fails, passes = build.done_of("fail"), build.done_of("pass")
    broken, flaky = ((build.SUITE, name) for name in ("case_6", "case_7"))
    fresh = (
        {broken: [fails] * 5, flaky: [passes] * 3},
        {broken: [passes] * 5, flaky: [passes] * 3},
    )
    head, base = "pass " * 5 + "fail fail fail", "pass " * 5 + "pass pass fail"
    return comparing.report(head, base, fresh=fresh)


def improved() -> Report:
    """Head is better, and surely so."""
    head = " ".join(["pass*5"] * 12)
    return comparing.report(head, " ".join(["pass*5"] * 8 + ["fail*5"] * 4))


def unchanged() -> Report:
    """Nothing moved; it is said what could have been missed."""
    return comparing.report(" ".join(["pass*3"] * 12), " ".join(["pass*3"] * 12))


def drop() -> Report:
    """A tool call is lost in one case of twelve, and thresholds as low as those of ADK's samples
    let it pass."""
    suite = build.suite(
        *(
            case(
                f"order_{number}",
                turn("Hello!", answer="Hello! What may I do for you?"),
                turn(
                    f"Where is order {number}?",
                    call("find_order", order=number),
                    call("track_parcel", order=number, carrier="post"),
                    answer=f"Order {number} arrives tomorrow.",
                ),
                line=4 + 22 * number,
            )
            for number in range(1, 13)
        ),
        criteria={TOOLS: 0.2, WORDS: 0.1},
    )
    right = {
        (suite.key, asked.case_id): build.scores(
            *(asked.conversation or ()), **{TOOLS: [1.0, 1.0], WORDS: [1.0, 1.0]}
        )
        for asked in suite.eval_set.cases
    }
    hello, _ = suite.eval_set.cases[6].conversation or ()
    asks = "Where is order 7?"
    lost = build.scores(
        hello,
        turn(asks, call("find_order", order=7), answer="Order 7 is on its way."),
        **{TOOLS: [1.0, 0.0], WORDS: [1.0, 0.4]},
    )
    head = {key: [done] for key, done in right.items()} | {(suite.key, "order_7"): [lost]}
    return comparing.beside([suite], head, {key: [done] for key, done in right.items()})


def undecided() -> Report:
    """One case of eight seems worse, once: nobody can tell; a higher-is-open criterion moved,
    too."""
    policy = Policy(pass_rate=0.5)
    return comparing.report("pass " * 6 + "fail fail", "pass " * 8, policy=policy)


def base_broken() -> Report:
    """The base does not start: the thresholds still hold, the comparison is not measured."""
    problem = "the base's agent did not run: ModuleNotFoundError: No module named 'flights'"
    return comparing.without("pass pass pass", Comparison(origin=RERUN, problem=problem))


def base_failed() -> Report:
    """The base does not start by its own fault: the comparison is inconclusive, and the thresholds
    decide."""
    problem = "the base cannot start: ModuleNotFoundError: No module named 'flights'"
    return comparing.without(
        "pass pass pass", Comparison(origin=RERUN, problem=problem, base_failed=True)
    )


def first_agent() -> Report:
    """The change that brings the first agent: nothing could have become worse."""
    problem = "the base has no agent for any of these suites"
    return comparing.without(
        "pass pass pass", Comparison(origin=RERUN, problem=problem, no_agent=True)
    )


def relaxed() -> Report:
    """A green that was made by lowering the bar."""
    edits = (
        GateEdit(kind=EditKind.RULE, subject="max_drop", base="0.05", head="0.25"),
        GateEdit(
            kind=EditKind.RULE,
            subject=WORDS,
            suite=build.SUITE,
            base="0.80",
            head="0.50",
            place=Place(file="agents/travel/test_config.json", line=4),
        ),
        GateEdit(
            kind=EditKind.RULE, subject="safety_v1", suite=build.SUITE, base="1.00", head="unset"
        ),
        GateEdit(
            kind=EditKind.RULE,
            subject=f"match_type of {TOOLS}",
            suite=build.SUITE,
            base="EXACT",
            head="ANY_ORDER",
        ),
        GateEdit(
            kind=EditKind.FILE,
            subject="agents/travel/test_config.json",
            base="-1",
            head="+1",
            lines=(
                "@@ -3,3 +3,3 @@",
                '   "criteria": {',
                '-    "response_match_score": 0.8,',
                '+    "response_match_score": 0.5,',
            ),
            place=Place(file="agents/travel/test_config.json"),
        ),
        GateEdit(kind=EditKind.CASE_REMOVED, subject="refund_policy", suite=build.SUITE),
        GateEdit(kind=EditKind.CASE_CHANGED, subject="case_2", suite=build.SUITE),
        GateEdit(
            kind=EditKind.SUITE_REMOVED,
            subject="agents/travel/old.test.json",
            suite="agents/travel/old.test.json",
            base="3 cases",
        ),
    )
    made = comparing.report("pass*2 pass*2 pass*2", "pass*2 pass*2 pass*2")
    unasked = (f"`safety_v1` in {build.SUITE}",)
    return dataclasses.replace(made, edits=Edits(edits=edits, decide=True, unasked=unasked))


def apart() -> Report:
    """A stored, stale base of an older commit: cases are new, changed and removed."""
    origin = BaseOrigin(
        source=BaseSource.MIXED,
        commit=BASE_SHA,
        found_by="merge-base",
        measured_at="2025-12-03T02:00:00+00:00",
        age_days=30.04,
        distance=3,
        reused=12,
        run=2,
        notes=("the stored results are 30 days old, more than 14: run the base branch again",),
    )
    status = {
        (build.SUITE, "case_5"): CaseStatus.NEW,
        (build.SUITE, "case_6"): CaseStatus.NEW,
        (build.SUITE, "case_7"): CaseStatus.CHANGED,
        (build.SUITE, "refund_policy"): CaseStatus.REMOVED,
    }
    head = "pass*2 pass*2 pass*2 pass*2 fail*2 pass*2 pass*2"
    report = comparing.report(
        head, "pass*2 " * 4 + "never never pass*2", origin=origin, unpaired=status
    )
    assert report.comparison is not None
    assert report.comparison.base is not None
    *stored, one, other = report.comparison.base.trials
    trials = (*(dataclasses.replace(each, reused=True) for each in stored), one, other)
    base = dataclasses.replace(report.comparison.base, trials=trials)
    return dataclasses.replace(report, comparison=dataclasses.replace(report.comparison, base=base))


def origins() -> Report:
    """`threshold: new`: one failure is new and confirmed, one was no failure when run again, one is
    known, one flaky, and of one nobody knows the base."""
    policy = Policy(threshold=ThresholdRule.NEW)
    key = build.SUITE
    fails, passes = build.done_of("fail"), build.done_of("pass")
    fresh = (
        {
            (key, "case_2"): [fails] * 5,
            (key, "case_3"): [passes] * 3,
            (key, "case_5"): [passes] * 3,
        },
        {
            (key, "case_2"): [passes] * 5,
            (key, "case_3"): [passes] * 3,
            (key, "case_5"): [passes] * 3,
        },
    )
    head = "pass fail wrong fail fail wrong " + "pass " * 6
    base = "pass pass pass fail pass error " + "pass " * 6
    return comparing.report(
        head, base, policy=policy, fresh=fresh, alone={(key, "case_6"): [fails] * 20}
    )


def known() -> Report:
    """`threshold: new`: main is red already; head fails what the base fails, and nothing else: it
    passes."""
    policy = Policy(threshold=ThresholdRule.NEW)
    return comparing.report(
        "pass*3 fail*3 pass*3 pass*3", "pass*3 fail*3 pass*3 pass*3", policy=policy
    )


def cut_short() -> Report:
    """A budget ended the run: nothing is claimed of what is left."""
    said = "the budget of 20 agent calls is spent"
    return comparing.report(
        "pass*3 pass*3 pass*2/never never*3", "pass*3 pass*3 pass*2/never never*3", truncated=said
    )


def many_beside() -> Report:
    """300 failing cases beside a base that passes them."""
    words = ["fail", "wrong", "fail"] * 100
    return comparing.report(" ".join([*words, *["pass"] * 60]), " ".join(["pass"] * 360))


def hostile_beside() -> Report:
    """Every string of a comparison is an attack, megabytes of it where they may be long."""
    suite_key = "agents/@octocat/`x`|<b>#1\n::error::.evalset.json"
    name, metric = HOSTILE, f"my|metric@octocat`<b> {HOSTILE}"
    blob = HOSTILE * 2_000
    cases = [
        case(
            name,
            turn(HOSTILE, call("a|b`@octocat", x=HOSTILE), answer=HOSTILE),
            line=3,
            file=suite_key,
        ),
        case("\u202e@org/team", turn("x", answer="y"), line=4, file=suite_key),
        case("known #1", turn("x", answer="y"), line=5, file=suite_key),
    ]
    suite = build.suite(
        *cases, key=suite_key, criteria={WORDS: 0.8, metric: 0.5, f"info {HOSTILE}": None}
    )

    def done(value: float, *said: Invocation) -> list[Done]:
        finding = Finding(text=HOSTILE, turn=1, label="@octocat|`", subject=HOSTILE)
        grades = {
            WORDS: Score(value=value, turns=(value,)),
            metric: Score(value=value, turns=(value,), findings=(finding,)),
            f"info {HOSTILE}": Score(value=value * 100),
        }
        return [Done(turns=said, grades=grades)] * 2

    keys = [(suite_key, each.case_id) for each in cases]
    ours, theirs = (
        turn("x", call("a|b`@octocat", x="::error::"), answer=HOSTILE[::-1]),
        turn(HOSTILE, call(HOSTILE[:90], y=HOSTILE), answer=blob),
    )
    head = {keys[0]: done(0.1, ours), keys[1]: done(1.0, ours), keys[2]: done(0.0, ours)}
    base = {keys[0]: done(1.0, theirs), keys[1]: done(0.0, theirs), keys[2]: done(0.0, theirs)}
    rules = tuple(
        GateEdit(
            kind=kind,
            subject=HOSTILE,
            suite=HOSTILE,
            base=blob,
            head=blob,
            lines=(HOSTILE, f"-{blob}"),
            place=Place(file=HOSTILE, line=1),
        )
        for kind in EditKind
    )
    origin = BaseOrigin(
        source=BaseSource.FILE,
        commit="@org/team|<b>`",
        found_by=HOSTILE,
        measured_at=HOSTILE,
        age_days=0.5,
        distance=1,
        notes=(HOSTILE, blob),
    )
    removed = {
        (suite_key, HOSTILE[::-1]): CaseStatus.REMOVED,
        (suite_key, "\u202egone"): CaseStatus.REMOVED,
    }
    links = Links(
        repository="https://github.com/example/travel",
        commit=build.LINKS.commit,
        checkout=build.LINKS.commit,
        workflow_run="javascript:alert(1)",
    )
    made = comparing.beside(
        [suite],
        head,
        base,
        origin=origin,
        unpaired=removed,
        links=links,
        title=HOSTILE,
        reproduce=blob,
    )
    gates = tuple(dataclasses.replace(gate, reason=blob) for gate in made.verdict.gates)
    agents = (
        LoadedAgent(
            name=HOSTILE,
            kind=f"{at}{HOSTILE}",
            model=f"{at}`{HOSTILE}",
            description=f"{HOSTILE}{at}",
            instruction=f"{HOSTILE}{at}\n{blob}",
            settings={HOSTILE: f"{at}"},
            tools={
                HOSTILE: LoadedTool(description=f"{at}{HOSTILE}", parameters={HOSTILE: f"{at}"}),
                f"{at}{{}}": LoadedTool(),
            },
            sub_agents=(f"{at}{HOSTILE}",),
        )
        for at in range(2)
    )
    told = [
        AgentDescription(
            agents=(agent,),
            packages={HOSTILE: agent.kind, agent.kind: HOSTILE},
            files={agent.kind: HOSTILE},
        )
        for agent in agents
    ]
    made = with_agents(made, told[0], told[1])
    verdict = dataclasses.replace(made.verdict, reason=blob, gates=gates)
    return dataclasses.replace(made, verdict=verdict, edits=Edits(edits=rules, unasked=(HOSTILE,)))


def hostile_problem() -> Report:
    """What keeps the base from being measured is the base's own words: an attack, too."""
    return comparing.without("pass fail", Comparison(origin=RERUN, problem=HOSTILE * 2_000))


def languages_beside() -> Report:
    """Korean and Arabic on both sides, with what the base said."""
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
            "الطقس في القاهرة ممطر.",
        ),
        ("부산_날씨", "부산은요?", "부산은 비가 옵니다.", "부산은 비가 옵니다."),
    ]
    cases = [
        case(name, turn(user, call("weather", city=name), answer=right), line=at * 9)
        for at, (name, user, right, _) in enumerate(asked, 1)
    ]
    suite = build.suite(*cases)
    base = {
        (suite.key, name): [
            build.scores(
                turn(user, call("weather", city=name), answer=right), **{TOOLS: [1.0], WORDS: [1.0]}
            )
        ]
        * 2
        for name, user, right, _ in asked
    }
    head = {
        (suite.key, name): [
            build.scores(
                turn(user, call("weather", city=name, unit="°C"), answer=wrong),
                **{TOOLS: [0.0], WORDS: [0.5]},
            )
        ]
        * 2
        if wrong != right
        else base[suite.key, name]
        for name, user, right, wrong in asked
    }
    return comparing.beside([suite], head, base)


COMPARED: Mapping[str, Callable[[], Report]] = {
    "base_regressed": regressed,
    "base_reruns": reruns,
    "base_improved": improved,
    "base_unchanged": unchanged,
    "base_drop": drop,
    "base_inconclusive": undecided,
    "base_broken": base_broken,
    "base_failed": base_failed,
    "base_no_agent": first_agent,
    "base_relaxed": relaxed,
    "base_apart": apart,
    "base_origins": origins,
    "base_known": known,
    "base_cut_short": cut_short,
    "base_many": many_beside,
    "base_hostile": hostile_beside,
    "base_hostile_problem": hostile_problem,
    "base_languages": languages_beside,
}
