"""The local double of the CES API behaves as its real clients expect: google-cloud-ces over REST,
and `cxas` itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from builders import ces_double
from builders.ces_double import APP, CesDouble
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import ces_v1beta as ces
from google.cloud.ces_v1beta.services.evaluation_service.transports.rest import (
    EvaluationServiceRestTransport,
)
from google.protobuf import json_format

pytestmark = pytest.mark.integration

DATA = Path(__file__).parents[1] / "data/ces"
RENEW = f"{APP}/evaluations/renew-loan"


@pytest.fixture
def double() -> Iterator[CesDouble]:
    with ces_double.running() as made:
        made.is_busy = False  # these clients give up at once
        yield made


@pytest.fixture
def client(double: CesDouble) -> ces.EvaluationServiceClient:
    host = double.url.removeprefix("http://")
    transport = EvaluationServiceRestTransport(
        host=host, url_scheme="http", credentials=AnonymousCredentials()
    )
    return ces.EvaluationServiceClient(transport=transport)


def golden() -> Any:
    message = ces.Evaluation()
    text = (DATA / "golden_library_renewal.json").read_text()
    json_format.Parse(
        text.replace("projects/local/locations/local/apps/library-desk", APP),
        ces.Evaluation.pb(message),
    )
    message.name = ""
    return message


def test_the_real_client(double: CesDouble, client: ces.EvaluationServiceClient) -> None:
    """Create, list, update with a mask and an etag, run, read the result, delete."""
    with pytest.raises(exceptions.BadRequest, match=r"agents/loans is not there"):
        client.create_evaluation(parent=APP, evaluation=golden(), evaluation_id="renew-loan")
    double.put_referenced(ces.Evaluation.pb(golden()))
    made = client.create_evaluation(parent=APP, evaluation=golden(), evaluation_id="renew-loan")
    assert made.name == RENEW
    with pytest.raises(exceptions.Conflict, match="already exists"):
        client.create_evaluation(parent=APP, evaluation=golden())
    assert [each.name for each in client.list_evaluations(parent=APP)] == [RENEW]

    change: Any = ces.Evaluation(name=RENEW, etag=made.etag, display_name="renewed")
    changed = client.update_evaluation(evaluation=change, update_mask={"paths": ["display_name"]})
    assert (changed.display_name, changed.golden, changed.etag != made.etag) == (
        "renewed",
        made.golden,
        True,
    )
    assert double.asked_for("PATCH")[-1].query["updateMask"] == "displayName"
    with pytest.raises(exceptions.Conflict, match="stale"):
        client.update_evaluation(evaluation=change, update_mask={"paths": ["display_name"]})
    with pytest.raises(exceptions.BadRequest, match="update_mask is required"):
        client.update_evaluation(evaluation=change)
    with pytest.raises(exceptions.BadRequest, match="invalid field path"):
        client.update_evaluation(
            evaluation=ces.Evaluation(name=RENEW), update_mask={"paths": ["golden.turns.steps"]}
        )

    with pytest.raises(exceptions.BadRequest, match="output only"):
        client.update_evaluation(
            evaluation=ces.Evaluation(name=RENEW), update_mask={"paths": ["create_time"]}
        )

    double.outcomes["renewed"] = "FAIL"
    operation = client.run_evaluation(
        ces.RunEvaluationRequest(app=APP, evaluations=[RENEW], golden_run_method=2)
    )
    run = client.get_evaluation_run(name=operation.result(timeout=20).evaluation_run)
    assert (run.state, run.progress.total_count) == (
        ces.EvaluationRun.EvaluationRunState.COMPLETED,
        1,
    )
    (result,) = client.list_evaluation_results(parent=f"{APP}/evaluations/-")
    assert result.name == run.evaluation_results[0]
    assert result.evaluation_status == ces.EvaluationResult.Outcome.FAIL

    with pytest.raises(exceptions.Conflict, match="stale"):
        client.delete_evaluation(ces.DeleteEvaluationRequest(name=RENEW, etag=made.etag))
    client.delete_evaluation(ces.DeleteEvaluationRequest(name=RENEW, etag=changed.etag))
    with pytest.raises(exceptions.NotFound):
        client.get_evaluation(name=RENEW)


def test_it_is_busy_and_its_pages_are_short(double: CesDouble) -> None:
    double.is_busy = True
    for number in range(7):
        double.put(f"{APP}/evaluations/e-{number}", {"displayName": f"e{number}"})
    address = f"{double.url}/v1beta/{APP}/evaluations?pageSize=100"
    answers = [requests.get(address, timeout=10) for _ in range(80)]
    statuses = [answer.status_code for answer in answers]
    assert [statuses[at] for at in range(9, 80, 10)].count(429) == 8
    assert statuses[36:40] == [200, 503, 503, 429]  # the burst meets the tenth
    assert statuses[73:76] == [503, 503, 503]
    assert len(answers[0].json()["evaluations"]) == 3
    assert len(double.asked) == statuses.count(200)


MASKED = [  # the mask, what is given, what is there afterwards
    ("description", {}, {"description": ""}),  # a masked field that is absent is cleared
    ("tags", {"tags": ["b"]}, {"tags": ["b"]}),  # a list is replaced
    # nested, and its parent is absent
    ("golden.evaluation_expectations", {}, {"golden.evaluation_expectations": []}),
    # the other of the group goes
    ("scenario", {"scenario": {"task": "t"}}, {"golden": None, "scenario.task": "t"}),
    ("tags", {"description": "x"}, {"description": "d", "tags": []}),  # what no mask names stays
]


@pytest.mark.parametrize(("mask", "given", "left"), MASKED, ids=range(len(MASKED)))
def test_masks(
    double: CesDouble,
    client: ces.EvaluationServiceClient,
    mask: str,
    given: dict[str, Any],
    left: dict[str, Any],
) -> None:
    content = json_format.MessageToDict(ces.Evaluation.pb(golden()))
    double.put(RENEW, {**content, "description": "d", "tags": ["a"]})
    double.put_referenced()
    found = client.update_evaluation(
        evaluation=ces.Evaluation(name=RENEW, **given), update_mask={"paths": [mask]}
    )
    for path, value in left.items():
        at: Any = found
        for step in path.split("."):
            at = at._pb.HasField(step) and getattr(at, step) if value is None else getattr(at, step)
        assert (at or value) == value, path


GREET = """conversations:
  - conversation: greet
    tags: [P0]
    turns:
      - user: hello
        agent: Hi there
"""


@pytest.fixture
def cxas(double: CesDouble, tmp_path: Path) -> Any:
    """Calls `cxas`, which needs 800 MB of packages of its own: `make .venv-cxas/.ready` installs
    it."""
    home = os.environ.get("EVALGATE_TEST_CXAS") or str(Path(__file__).parents[2] / ".venv-cxas")
    program = Path(home) / "bin/cxas"
    if not program.exists():
        pytest.skip(
            "needs cxas: `make .venv-cxas/.ready`, or EVALGATE_TEST_CXAS names its environment"
        )
    double.token = "a-token-for-cxas"
    double.words = None
    environment = {**os.environ, "CES_API_ENDPOINT": double.url, "CES_TRANSPORT": "rest"}
    environment |= {"CXAS_OAUTH_TOKEN": double.token, "HOME": str(tmp_path)}
    (tmp_path / "greet.yaml").write_text(GREET)

    def call(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(program), *args],
            check=False,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr

    return call


def test_cxas_pushes_without_a_mask_and_passes_a_failed_evaluation(
    double: CesDouble, cxas: Any
) -> None:
    """The anchor as it is: what it creates arrives; its updates have neither mask nor etag; FAIL
    and ERROR pass."""
    push = ("push-eval", "--app-name", APP, "--file", "greet.yaml")
    status, told = cxas(*push)
    assert status == 0, told
    (name,) = double.named("evaluations")
    assert double.resources[name].golden.turns[0].steps[0].user_input.text == "hello"
    status, told = cxas(*push)
    assert (status, "update_mask is required" in told) == (1, True)
    assert "etag" not in double.asked_for("PATCH")[-1].body

    double.outcomes["greet"] = "FAIL"
    run = ("run", "--app-name", APP, "--evaluation-id", name, "--wait", "--filter-auto-metrics")
    status, told = cxas(*run)
    assert "--- Evaluation Status: FAIL ---" in told
    assert (status, "FINAL RESULT: PASS" in told) == (0, True)
