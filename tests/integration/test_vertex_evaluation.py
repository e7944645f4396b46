"""The client of Google Cloud's evaluation service against a local server, with google-auth's real
token exchange."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import evaluation_service
from builders.build import case, turn
from builders.evaluation_service import Answer, EvaluationService

from evalgate.model import CriterionUse, Grade, NotEvaluated, Reason, Score, TrialView

pytestmark = pytest.mark.integration


@pytest.fixture
def cloud() -> Iterator[EvaluationService]:
    service = EvaluationService()
    yield service
    service.close()


@pytest.fixture
def environment(cloud: EvaluationService, tmp_path: Path) -> dict[str, str]:
    return cloud.environment(tmp_path)


@pytest.fixture
def judged(environment: dict[str, str]) -> Callable[..., Grade]:
    def grade(name: str = "safety_v1", **changed: str) -> Grade:
        side = (turn("what?", answer="seven"), turn("and?", answer="eight"))
        view = TrialView(case=case("c"), actual=side, expected=side)
        use = CriterionUse(name=name, threshold=0.5)
        return evaluation_service.grade(use, view, {**environment, **changed})

    return grade


def test_one_request_a_turn_with_one_token(
    cloud: EvaluationService, judged: Callable[..., Grade]
) -> None:
    found = judged()
    assert isinstance(found, Score)
    assert (found.value, found.turns) == (1.0, (1.0, 1.0))
    assert {path for path, _, _ in cloud.seen} == {
        "/v1beta1/projects/p/locations/europe-west1/:evaluateInstances"
    }
    assert {headers["authorization"] for _, headers, _ in cloud.seen} == {"Bearer a-token"}
    assert sorted(body["instance"]["response"]["text"] for _, _, body in cloud.seen) == [
        "eight",
        "seven",
    ]
    assert cloud.tokens == 1


def test_an_api_key_without_a_project(
    cloud: EvaluationService, judged: Callable[..., Grade]
) -> None:
    assert isinstance(judged(GOOGLE_CLOUD_PROJECT="", GOOGLE_API_KEY="k-1"), Score)
    path, headers, _ = cloud.seen[0]
    assert (path, headers["x-goog-api-key"]) == ("/v1beta1/:evaluateInstances", "k-1")


@pytest.mark.parametrize(
    ("answers", "reason", "says"),
    [
        ([(401, {"error": {"message": "bad token"}})], Reason.CREDENTIALS_MISSING, "bad token"),
        ([(403, {"error": {"message": "API is off"}})], Reason.CREDENTIALS_MISSING, "API is off"),
        ([(404, "<html>nothing here</html>")], Reason.JUDGE_UNAVAILABLE, "nothing here"),
        ([(500, "oops")], Reason.JUDGE_UNAVAILABLE, "oops"),
        ([(200, "no json")], Reason.JUDGE_UNAVAILABLE, "no json"),
        (
            [(200, {"metricResults": [{"error": {"message": "quota of the metric"}}]})],
            Reason.JUDGE_UNREADABLE,
            "quota",
        ),
    ],
)
def test_faults(
    cloud: EvaluationService,
    judged: Callable[..., Grade],
    answers: list[Answer],
    reason: Reason,
    says: str,
) -> None:
    cloud.answers = answers
    found = judged()
    assert isinstance(found, NotEvaluated)
    assert found.reason is reason
    assert says in found.message
    assert "a-token" not in found.message


def test_a_busy_service_is_asked_again(
    cloud: EvaluationService, judged: Callable[..., Grade]
) -> None:
    cloud.answers = [(429, {"error": {"message": "slow down"}}), (503, "later"), *cloud.answers]
    assert isinstance(judged(), Score)


def test_credentials_that_cannot_be_read(judged: Callable[..., Grade], tmp_path: Path) -> None:
    found = judged(GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "none.json"))
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.CREDENTIALS_MISSING


def test_nothing_configured_says_what_to_do(judged: Callable[..., Grade]) -> None:
    found = judged(GOOGLE_CLOUD_PROJECT="")
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.CREDENTIALS_MISSING
    assert "GOOGLE_CLOUD_PROJECT" in found.message
    assert '"judge": "llm"' in found.message
