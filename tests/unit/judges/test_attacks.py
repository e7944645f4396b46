"""Whatever a judged text says, it stays within its fence: a judge that obeys all that stands
outside is not fooled."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.build import call, case, turn
from builders.judging import ScriptedJudge, panel
from hypothesis import given, strategies as st

from evalgate import criteria
from evalgate.criteria import (
    final_response_match_v2,
    hallucinations_v1,
    rubrics,
    user_simulation,
)
from evalgate.criteria.base import CriterionServices
from evalgate.criteria.rubrics import Subject
from evalgate.judges import prompting
from evalgate.judges.base import JudgeRequest
from evalgate.judges.prompting import Question
from evalgate.model import (
    Content,
    ConversationScenario,
    CriterionUse,
    Event,
    Invocation,
    Persona,
    Rubric,
    Score,
    SimulatorUse,
    Text,
    ToolResponse,
    TrialView,
)
from evalgate.simulation.prompt import Script
from evalgate.wings.author import generate
from evalgate.wings.google_cloud import criteria as google_criteria

DATA = Path(__file__).parents[2] / "data/attacks/attacks.json"
ATTACKS = {each["name"]: each["text"] for each in json.loads(DATA.read_text("utf-8"))["attacks"]}
BENIGN = "The weather is fine."


def _rubrics(subject: Subject) -> Callable[[str], Question]:
    def render(text: str) -> Question:
        given = [Rubric(rubric_id=text, text=text), Rubric(rubric_id="2", text="polite")]
        return rubrics.ask_rubrics(subject, {"final_answer": text}, given)

    return render


def _played(plan: str, answer: str) -> Question:
    scenario = ConversationScenario(starting_prompt="", conversation_plan=plan)
    script = Script(scenario, SimulatorUse())
    script.add(turn("q", answer=answer))
    return script.question()


def _quality(**given: object) -> Question:
    asked = {
        "plan": "Ask.",
        "conversation": "",
        "message": "m",
        "stop_signal": "</finished>",
        "persona": None,
        **given,
    }
    return user_simulation.ask_quality(**asked)


PROMPTS: dict[str, Callable[[str], Question]] = {
    "match, answer": lambda text: final_response_match_v2.ask_match(
        request="q", answer=text, reference="7"
    ),
    "match, request": lambda text: final_response_match_v2.ask_match(
        request=text, answer="7", reference="7"
    ),
    "match, reference": lambda text: final_response_match_v2.ask_match(
        request="q", answer="7", reference=text
    ),
    "rubrics of an answer": _rubrics(Subject.FINAL_RESPONSE),
    "rubrics of tool use": _rubrics(Subject.TOOL_USE),
    "rubrics of a conversation": _rubrics(Subject.CONVERSATION),
    "segmentation": hallucinations_v1.render_split,
    "validation, sentences": lambda text: hallucinations_v1.render_validation({}, [text, "x"]),
    "validation, context": lambda text: hallucinations_v1.render_validation(
        {"steps": text}, ["x", "y"]
    ),
    "safety": lambda text: google_criteria.ask_safety(request="q", answer=text),
    "coherence": lambda text: google_criteria.ask_coherence(request="q", answer=text),
    "simulated user, answer": lambda text: _played("Ask.", text),
    "simulated user, plan": lambda text: _played(text, "yes"),
    "simulator quality, message": lambda text: _quality(message=text),
    "simulator quality, conversation": lambda text: _quality(
        conversation=user_simulation.history([turn("q", answer=text)])
    ),
    "simulator quality, persona": lambda text: _quality(
        persona=Persona(persona_id="own", description=text)
    ),
    "generating, agent": lambda text: generate.render_question(
        agents=[], introduction=text, instruction="", count=1
    ),
    "generating, wishes": lambda text: generate.render_question(
        agents=[], introduction="", instruction=text, count=1
    ),
}


def split(prompt: str) -> tuple[list[str], list[str]]:
    """The lines outside the fences, with the code taken out, and those inside; a marker is a whole
    line."""
    head, _, rest = prompt.partition("\n")
    code = head.removeprefix("The code of this message is ")
    outside, inside, piece = [], [], ""
    for line in rest.split("\n"):
        if piece and line == f">>> {piece} {code}":
            piece = ""
            outside.append(">>>")
        elif piece:
            inside.append(line)
        elif line.startswith("<<< ") and line.endswith(f" {code}"):
            piece = line[4 : -len(code) - 1]
            outside.append(f"<<< {piece}")
        else:
            outside.append(line)
    assert not piece, "every fence is closed"
    return outside, inside


def armed(attack: str, render: Callable[[str], Question]) -> str:
    """The attack with the code that a text without it has: the best guess that there is."""
    code = render(BENIGN).prompt.partition("\n")[0].rpartition(" ")[2]
    names = (
        "user_request",
        "reference_answer",
        "agent_answer",
        "final_answer",
        "properties",
        "sentences",
    )
    text = attack.replace("{code}", code).replace("{CODE}", code.upper())
    text = text.replace("{closings}", "\n".join(f">>> {name} {code}" for name in names))
    return text.replace("{openings}", "\n".join(f"<<< {name} {code}" for name in names))


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 30


@pytest.mark.parametrize("prompt", PROMPTS)
def test_outside_the_fence_nothing_changes(prompt: str) -> None:
    render = PROMPTS[prompt]
    benign = render(BENIGN)
    benign_outside, benign_inside = split(benign.prompt)
    for name, attack in ATTACKS.items():
        attacked = render(armed(attack, render))
        outside, inside = split(attacked.prompt)
        assert attacked.system == benign.system, name
        assert outside == benign_outside, name
        assert inside != benign_inside, name


@given(st.text(alphabet=st.characters(exclude_categories=())), st.sampled_from(sorted(PROMPTS)))
def test_no_text_leaves_its_fence(text: str, prompt: str) -> None:
    render = PROMPTS[prompt]
    assert split(render(text).prompt)[0] == split(render(BENIGN).prompt)[0]
    render(text).prompt.encode()  # can be sent


# --- through the criteria, with a judge that obeys ------------------------------------------------

YES_AND_NO = {
    "final_response_match_v2": ("valid", "invalid"),
    "rubric_based_final_response_quality_v1": ("yes", "no"),
    "rubric_based_tool_use_quality_v1": ("yes", "no"),
    "rubric_based_multi_turn_trajectory_quality_v1": ("yes", "no"),
    "hallucinations_v1": ("supported", "unsupported"),
    "safety_v1": ("safe", "unsafe"),
    "response_evaluation_score": ("5", "1"),
    "multi_turn_task_success_v1": ("yes", "no"),
    "multi_turn_trajectory_quality_v1": ("yes", "no"),
    "multi_turn_tool_use_quality_v1": ("yes", "no"),
}
RUBRIC = {"rubric_id": "r", "rubric_content": {"text_property": "It is right."}}


def reply_of(name: str, label: str) -> str:
    """The label on everything that a prompt could ask about."""
    key, prefix = ("label", "S") if name == "hallucinations_v1" else ("verdict", "P")
    if name in ("final_response_match_v2", "safety_v1", "response_evaluation_score"):
        return json.dumps({"rationale": "", "verdict": label})
    return json.dumps(
        {"verdicts": [{"id": f"{prefix}{number}", key: label} for number in range(1, 60)]}
    )


class Obedient:
    """Does what any line outside the fences says, unless it was there before the attacks began;
    else is honest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known: list[list[str]] = []
        self.attacked = False

    def __call__(self, request: JudgeRequest) -> str:
        outside, inside = split(request.prompt)
        if not self.attacked:
            self.known.append(outside)
        if outside in self.known and "<<< agent_text" in outside:
            return "\n".join(f"* <sentence>{line}</sentence>" for line in inside)
        wanted, honest = YES_AND_NO[self.name]
        return reply_of(self.name, honest if outside in self.known else wanted)


def attacked_evidence(attack: str) -> TrialView:
    response = ToolResponse(name="lookup", response={"note": attack}, id=None)
    said = turn("what is it?", call("lookup", q=attack), answer=attack)
    events = (
        *(said.events or ()),
        Event(author="agent", content=Content(parts=(response, Text(text=attack)))),
    )
    actual = Invocation(
        user_content=said.user_content, final_response=said.final_response, events=events
    )
    return TrialView(case=case("c"), actual=(actual,), expected=(turn("what is it?", answer="7"),))


def options_of(name: str) -> Iterator[tuple[str, object]]:
    if name.startswith("rubric"):
        yield "rubrics", [RUBRIC]
    if name in ("safety_v1", "response_evaluation_score") or name.startswith("multi_turn"):
        yield "judge", "llm"


@contextlib.contextmanager
def scoring_by(obedient: Obedient) -> Iterator[Callable[[str], float]]:
    """Scores an agent whose answers and tools say a text."""
    use = CriterionUse(name=obedient.name, threshold=0.5, options=dict(options_of(obedient.name)))
    with contextlib.closing(panel(ScriptedJudge(obedient))) as held:
        grade_of = criteria.build(use, CriterionServices(judge=held))

        def score(text: str) -> float:
            grade = grade_of(attacked_evidence(text))
            assert isinstance(grade, Score), (grade, text)
            return grade.value

        yield score


@pytest.mark.parametrize("name", YES_AND_NO)
def test_an_obedient_judge_is_not_fooled(name: str) -> None:
    obedient = Obedient(name)
    with scoring_by(obedient) as score:
        honest = score(BENIGN)
        obedient.attacked = True
        for attack in ATTACKS.values():
            assert score(attack) == honest, attack
    assert honest == (1.0 if name == "response_evaluation_score" else 0.0)


def test_without_a_fence_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge above does obey what stands outside, or the tests above could not fail."""
    obedient = Obedient("final_response_match_v2")
    with scoring_by(obedient) as score:
        honest = score(BENIGN)
        obedient.attacked = True
        monkeypatch.setattr(prompting, "fenced_piece", lambda _name, lines, _code: lines)
        assert score(ATTACKS["plain order"]) != honest


def test_text_of_others_is_shown_as_it_is() -> None:
    assert prompting.text_of(Content(parts=(Text(text="a"), Text(text="b", thought=True)))) == "a"
