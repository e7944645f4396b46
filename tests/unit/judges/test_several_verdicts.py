"""The schema of several verdicts: what a server that keeps to it may and may not say."""

from __future__ import annotations

import jsonschema
import pytest

from evalgate.criteria import hallucinations_v1, rubrics
from evalgate.criteria.rubrics import Subject
from evalgate.judges import prompting
from evalgate.judges.prompting import ReplyForm
from evalgate.model import Rubric


def verdicts(count: int) -> dict[str, object]:
    return {"verdicts": [{"id": f"P{number % 2}", "verdict": "yes"} for number in range(count)]}


@pytest.mark.parametrize(
    ("count", "said", "fits"),
    [
        (2, verdicts(2), True),
        (2, verdicts(0), False),  # what a small model says where it may
        (2, verdicts(1), False),
        (2, verdicts(3), True),  # the parser drops what was not asked
        (30, verdicts(7), False),
        # a longer bound is too large for some servers; the rest is asked for again
        (30, verdicts(8), True),
        (1, {"verdicts": [{"id": "P0"}]}, False),
        (1, {"verdicts": [{"id": "P0", "verdict": "maybe"}]}, False),
        (1, {}, False),
    ],
)
def test_what_fits(count: int, said: object, fits: bool) -> None:
    names = [f"P{number}" for number in range(count)]
    form = ReplyForm(labels=rubrics.LABELS, names=dict(zip(names, names, strict=True)), texts=())
    schema = prompting.object_schema(form.properties())
    validator = jsonschema.Draft202012Validator(dict(schema))
    assert validator.is_valid(said) is fits


def test_no_question_about_several_things_takes_an_empty_list() -> None:
    listed = [Rubric(rubric_id=str(number), text="It rhymes.") for number in range(3)]
    asked = [rubrics.ask_rubrics(subject, {}, listed) for subject in Subject]
    asked.append(hallucinations_v1.render_validation({}, ["One.", "Two."]))
    for question in asked:
        assert question.schema is not None
        assert not jsonschema.Draft202012Validator(dict(question.schema)).is_valid({"verdicts": []})
