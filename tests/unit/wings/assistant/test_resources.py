"""CES resources in files, as an assistant reads and writes them: masks, etags, what relaxes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from google.cloud import ces_v1beta as library
from google.protobuf import json_format

from evalgate.wings.assistant.resources import ServerResources
from evalgate.wings.ces import read, resources as gate_resources, shapes
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.read import Kind

DATA = Path(__file__).parents[3] / "data/ces"
APP = "projects/local/locations/local/apps/library-desk"
RENEW = f"{APP}/evaluations/renew-loan-happy-path"
LOST = f"{APP}/evaluations/lost-card-scenario"
ONE = f"{APP}/evaluationExpectations/one-question-at-a-time"
FILE = "evaluations/golden_library_renewal/golden_library_renewal.json"
YAML = """\
# the desk
displayName: bye  # short
golden:
  turns:
    - steps:
        - userInput: {text: "Bye"}
        # what matters
        - expectation:
            agentResponse: {chunks: [{text: "Goodbye"}]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        gate_resources.platformdirs, "user_cache_dir", lambda _: str(tmp_path / "cache")
    )
    place = tmp_path / "repository"
    for path in DATA.glob("*.json"):
        named = {"e": "evaluationExpectations", "r": "results"}.get(path.stem[0], "evaluations")
        (place / named / path.stem).mkdir(parents=True)
        shutil.copy(path, place / named / path.stem)
    (place / "evaluations/bye.yaml").write_text(YAML)
    return place


def refusal(call: Any) -> Refused:
    with pytest.raises(Refused) as told:
        call()
    return told.value


def test_listed_by_page_and_found_by_name(root: Path) -> None:
    resources = ServerResources(root)
    names = [f"{shapes.LOCAL_APP}/evaluations/bye", LOST, RENEW]
    listed = resources.listed(Kind.EVALUATION)
    assert sorted(each["name"] for each in listed["evaluations"]) == sorted(names)
    first = resources.listed(Kind.EVALUATION, page_size=2)
    rest = resources.listed(Kind.EVALUATION, page_size=2, page_token=first["nextPageToken"])
    assert first["evaluations"] + rest["evaluations"] == listed["evaluations"]
    assert "nextPageToken" not in rest
    assert [
        each["name"] for each in resources.listed(Kind.EVALUATION, parent=APP)["evaluations"]
    ] == [LOST, RENEW]
    assert resources.get(Kind.EVALUATION, LOST)["displayName"] == "lost_card_scenario"
    assert len(resources.listed(Kind.RESULT, parent=RENEW)["results"]) == 1
    assert len(resources.listed(Kind.RESULT, parent=f"{APP}/evaluations/-")["results"]) == 2
    told = refusal(lambda: resources.get(Kind.EVALUATION, f"{APP}/evaluations/lost-card"))
    assert (told.code, LOST in told.message) == ("NOT_FOUND", True)


def test_an_update_changes_one_value_of_the_file(root: Path) -> None:
    before = (root / FILE).read_text()
    (root / FILE).chmod(0o640)
    done = ServerResources(root).update(
        Kind.EVALUATION, {"name": RENEW, "description": "Else"}, mask="description"
    )
    assert list(done.relaxations) == ["description: it is replaced by another"]
    after = (root / FILE).read_text()
    changed = [
        pair
        for pair in zip(before.splitlines(), after.splitlines(), strict=True)
        if pair[0] != pair[1]
    ]
    assert [new for _, new in changed] == ['  "description": "Else",']
    stored = ServerResources(root).get(Kind.EVALUATION, RENEW)
    assert stored.pop("lastCompletedResult")["evaluationStatus"] == "FAIL"
    assert stored.pop("aggregatedMetrics")["metricsByAppVersion"][0]["failCount"] == 1
    assert done.resource == stored
    assert (root / FILE).stat().st_mode & 0o777 == 0o640


def test_comments_of_yaml_stay(root: Path) -> None:
    name = f"{shapes.LOCAL_APP}/evaluations/bye"
    step = {"expectation": {"agentResponse": {"chunks": [{"text": "See you"}]}}}
    turns = [{"steps": [{"userInput": {"text": "Bye"}}, step]}]
    body = {"name": name, "golden": {"turns": turns}, "tags": ["P1"]}
    done = ServerResources(root).update(Kind.EVALUATION, body, mask="golden.turns,tags")
    assert (root / "evaluations/bye.yaml").read_text() == YAML.replace(
        '"Goodbye"', "See you"
    ) + "tags:\n- P1\n"
    assert [each.partition(": ")[2] for each in done.relaxations] == ["it is replaced by another"]


def test_etags(root: Path) -> None:
    resources = ServerResources(root)
    first = resources.get(Kind.EVALUATION, RENEW)["etag"]
    body = {"name": RENEW, "etag": first, "tags": ["a"]}
    second = resources.update(Kind.EVALUATION, body, mask="tags").resource
    assert second is not None
    assert second["etag"] != first
    assert refusal(lambda: resources.update(Kind.EVALUATION, body, mask="tags")).code == "ABORTED"
    assert refusal(lambda: resources.delete(Kind.EVALUATION, RENEW, etag=first)).code == "ABORTED"
    # without one the last writer wins
    resources.update(Kind.EVALUATION, {"name": RENEW, "tags": ["b"]}, mask="tags")
    # what the file says in another form is the same content
    text = (root / FILE).read_text()
    (root / FILE).write_text(json.dumps(json.loads(text)))
    assert resources.get(Kind.EVALUATION, RENEW)["tags"] == ["b"]


def test_a_preview_writes_nothing(root: Path) -> None:
    before = (root / FILE).read_text()
    body = {"name": RENEW, "golden": {"turns": json.loads(before)["golden"]["turns"][:1]}}
    done = ServerResources(root, read_only=True, no_relaxing=True).update(
        Kind.EVALUATION, body, mask="golden.turns", preview=True
    )
    assert (root / FILE).read_text() == before
    assert [each.partition(": ")[2] for each in done.relaxations] == [
        "it is removed",
        "it is removed",
    ]
    assert '-          {"userInput": {"text": "Yes, go ahead."}},' in done.diff
    assert done.resource is not None
    assert len(done.resource["golden"]["turns"]) == 1


REFUSED = [  # body, mask, code, where the fault is
    ({"description": "x"}, "description", "INVALID_ARGUMENT", "name"),
    ({"name": "x"}, "tags", "NOT_FOUND", None),
    ({"name": RENEW}, "displayNam", "INVALID_ARGUMENT", "updateMask"),
    ({"name": RENEW}, "displayName", "INVALID_ARGUMENT", "evaluation"),
    ({"name": RENEW, "displayName": "lost_card_scenario"}, "displayName", "ALREADY_EXISTS", None),
    ({"name": RENEW, "tagz": []}, "tags", "INVALID_ARGUMENT", "evaluation.tagz"),
    ({"name": RENEW}, "golden", "INVALID_ARGUMENT", "evaluation"),
    ({"name": RENEW, "golden": {}, "scenario": {}}, "*", "INVALID_ARGUMENT", "evaluation.scenario"),
    ({"name": LOST, "scenario": {"task": 1}}, "scenario.task", "INVALID_ARGUMENT", "evaluation.scenario.task"),
    ({"name": RENEW, "golden": {"turns": [{}]}}, "golden.turns", "INVALID_ARGUMENT", "evaluation.golden.turns[0]"),
    ({"name": f"{RENEW}/../../x"}, "tags", "NOT_FOUND", None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "mask", "code", "where"), REFUSED)
def test_what_is_refused_is_not_written(
    root: Path, body: Any, mask: str, code: str, where: str | None
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.*") if path.is_file()}
    told = refusal(lambda: ServerResources(root).update(Kind.EVALUATION, body, mask=mask))
    assert told.code == code
    assert where is None or where in [field for field, _ in told.violations]
    assert {path: path.read_bytes() for path in root.rglob("*.*") if path.is_file()} == before


def test_no_relaxing_and_read_only(root: Path) -> None:
    before = (root / FILE).read_text()
    strict = ServerResources(root, no_relaxing=True)
    override = {"goldenHallucinationMetricBehavior": "DISABLED"}
    relaxing = [
        (
            {"name": RENEW, "golden": {"turns": json.loads(before)["golden"]["turns"][:2]}},
            "golden.turns",
        ),
        (
            {"name": LOST, "scenario": {"userGoalBehavior": "USER_GOAL_IGNORED"}},
            "scenario.userGoalBehavior",
        ),
        (
            {
                "name": LOST,
                "evaluationMetricsThresholdOverride": {
                    "scenarioHallucinationMetricBehavior": "DISABLED"
                },
            },
            None,
        ),
        ({"name": LOST, "evaluationMetricsThresholdOverride": override}, None),
    ]
    for body, mask in relaxing:
        told = refusal(lambda body=body, mask=mask: strict.update(Kind.EVALUATION, body, mask=mask))
        assert (told.code, "--no-relaxing" in told.message) == ("PERMISSION_DENIED", True)
        assert told.violations
    assert refusal(lambda: strict.delete(Kind.EVALUATION, RENEW)).code == "PERMISSION_DENIED"
    assert (root / FILE).read_text() == before
    # what only asks for more is made
    tags = [*json.loads(before)["tags"], "more"]
    strict.update(Kind.EVALUATION, {"name": RENEW, "tags": tags}, mask="tags")
    closed = ServerResources(root, read_only=True)
    for call in (
        lambda: closed.update(Kind.EVALUATION, {"name": RENEW, "tags": []}, mask="tags"),
        lambda: closed.delete(Kind.EVALUATION, RENEW),
        lambda: closed.create(Kind.EVALUATION, {"displayName": "x", "scenario": {"task": "t"}}),
    ):
        assert refusal(call).code == "PERMISSION_DENIED"


def test_create(root: Path) -> None:
    resources = ServerResources(root)
    body = {"displayName": "Return a book", "scenario": {"task": "Return it."}}
    made = resources.create(Kind.EVALUATION, body, parent=APP, resource_id="return-a-book").resource
    assert made is not None
    assert made["name"] == f"{APP}/evaluations/return-a-book"
    path = root / "evaluations/Return_a_book/Return_a_book.json"
    assert json.loads(path.read_text()) == {**body, "name": made["name"]}
    assert resources.get(Kind.EVALUATION, made["name"]) == made
    for other, parent, named, code in (
        (body, APP, "return-a-book", "ALREADY_EXISTS"),
        (body, APP, "another-id", "ALREADY_EXISTS"),  # the displayName
        ({**body, "displayName": "y"}, APP, "../../etc", "INVALID_ARGUMENT"),
        ({**body, "displayName": "y"}, APP, "abc", "INVALID_ARGUMENT"),
        ({"displayName": "y"}, APP, "", "INVALID_ARGUMENT"),
    ):
        told = refusal(
            lambda: resources.create(Kind.EVALUATION, other, parent=parent, resource_id=named)  # noqa: B023 - called at once
        )
        assert told.code == code


def test_delete_and_what_refers_to_it(root: Path) -> None:
    resources = ServerResources(root)
    dataset = {"displayName": "nightly", "evaluations": [RENEW, LOST]}
    name = resources.create(Kind.DATASET, dataset, parent=APP).resource
    assert name is not None
    assert refusal(lambda: resources.delete(Kind.EVALUATION, RENEW)).code == "FAILED_PRECONDITION"
    resources.update(
        Kind.DATASET, {"name": name["name"], "evaluations": [LOST]}, mask="evaluations"
    )
    done = resources.delete(Kind.EVALUATION, RENEW)
    assert list(done.relaxations) == ["(whole): the evaluation is removed"]
    assert not (root / FILE).parent.exists()
    assert resources.get(Kind.DATASET, name["name"])["evaluations"] == [LOST]
    assert refusal(lambda: resources.delete(Kind.EVALUATION, RENEW)).code == "NOT_FOUND"
    result = resources.listed(Kind.RESULT)["results"][0]["name"]
    assert resources.delete(Kind.RESULT, result).relaxations == ()


def put_result(root: Path, evaluation: str, number: int, version: str, **fields: Any) -> None:
    """Keep a result of a run, as a run that was started here does."""
    result = {
        "name": f"{evaluation}/results/r{number}",
        "createTime": f"2030-01-01T00:00:{number:02}Z",
        "executionState": "COMPLETED",
        "appVersion": f"{APP}/versions/{version}",
        **fields,
    }
    ServerResources(root).keep({"evaluationRuns": [], "evaluationResults": [result]})


def test_what_runs_gave_is_shown_with_evaluations_and_datasets(root: Path) -> None:
    resources = ServerResources(root)
    dataset = {"displayName": "nightly", "evaluations": [LOST, "bye"]}
    dataset_name = resources.create(Kind.DATASET, dataset, parent=APP).resource["name"]  # type: ignore[index]
    for number, (status, version) in enumerate(
        [("FAIL", "v1"), ("PASS", "v2"), ("PASS", "v3"), ("FAIL", "v4"), ("PASS", "v4")], 1
    ):
        put_result(root, LOST, number, version, evaluationStatus=status)
    put_result(root, f"{shapes.LOCAL_APP}/evaluations/bye", 6, "v4", executionState="ERROR")
    newest = [  # three versions, and not the results of before
        {"appVersionId": "v2", "passCount": 1},
        {"appVersionId": "v3", "passCount": 1},
        {"appVersionId": "v4", "passCount": 1, "failCount": 1},
    ]
    for name, kind in ((LOST, Kind.EVALUATION), (dataset_name, Kind.DATASET)):
        shown = resources.get(kind, name)
        assert shown["aggregatedMetrics"] == {"metricsByAppVersion": newest}
        assert ("lastCompletedResult" in shown) == (kind is Kind.EVALUATION)
    listed = {
        evaluation["name"]: evaluation
        for evaluation in resources.listed(Kind.EVALUATION)["evaluations"]
    }
    assert listed[LOST]["aggregatedMetrics"] == {"metricsByAppVersion": newest}
    last = {
        "name": f"{LOST}/results/r5",
        "evaluationStatus": "PASS",
        "createTime": "2030-01-01T00:00:05Z",
    }
    assert listed[LOST]["lastCompletedResult"] == last
    full = resources.listed(Kind.EVALUATION, parent=APP, view="FULL")["evaluations"]
    assert full[0] == resources.get(Kind.EVALUATION, LOST)
    # one that could not be measured did not pass, and has no completed result
    failing = [
        evaluation["name"]
        for evaluation in resources.listed(Kind.EVALUATION, failing=True)["evaluations"]
    ]
    assert failing == [RENEW, f"{shapes.LOCAL_APP}/evaluations/bye"]
    assert "lastCompletedResult" not in listed[f"{shapes.LOCAL_APP}/evaluations/bye"]


def test_what_is_shown_are_messages_of_the_api(root: Path) -> None:
    """Google's parser knows every field, also of what lists show."""
    resources = ServerResources(root)
    dataset = {"displayName": "nightly", "evaluations": [LOST, RENEW]}
    resources.create(Kind.DATASET, dataset, parent=APP)
    put_result(root, LOST, 1, "v1", evaluationStatus="PASS")
    for kind, shape in {
        Kind.EVALUATION: library.Evaluation,
        Kind.DATASET: library.EvaluationDataset,
        Kind.EXPECTATION: library.EvaluationExpectation,
        Kind.RESULT: library.EvaluationResult,
    }.items():
        for view in ("BASIC", "FULL"):
            (listed,) = resources.listed(kind, view=view).values()
            assert listed
            for message in listed:
                if (
                    kind is Kind.EVALUATION
                    and message["name"] != f"{shapes.LOCAL_APP}/evaluations/bye"
                ):
                    assert message["lastCompletedResult"]["name"].startswith(message["name"])
                json_format.ParseDict(message, shape.pb(shape()))


def test_the_app_of_results_is_that_of_the_server(root: Path) -> None:
    """An evaluation without a name gets its results, whatever app the server was started for."""
    resources = ServerResources(root, app="projects/p/locations/l/apps/mine")
    name = "projects/p/locations/l/apps/mine/evaluations/bye"
    result = {"name": f"{shapes.LOCAL_APP}/evaluations/bye/results/r1", "evaluationStatus": "PASS"}
    kept = resources.keep(
        {"evaluationRuns": [], "evaluationResults": [{**result, "executionState": "COMPLETED"}]}
    )
    assert kept["evaluationResults"][0]["name"] == f"{name}/results/r1"
    assert (
        resources.get(Kind.EVALUATION, name)["lastCompletedResult"] == kept["evaluationResults"][0]
    )


def test_what_get_gives_can_be_written(root: Path) -> None:
    """With results, metrics and etag, as it is: an update that changes nothing, and a new one."""
    resources = ServerResources(root, no_relaxing=True)
    before = {path: path.read_bytes() for path in root.rglob("*.*") if path.is_file()}
    for name in (LOST, RENEW, f"{shapes.LOCAL_APP}/evaluations/bye"):
        shown = resources.get(Kind.EVALUATION, name)
        assert resources.update(Kind.EVALUATION, shown).changes == ()
        assert resources.update(Kind.EVALUATION, shown, mask="*").changes == ()
    assert {path: path.read_bytes() for path in root.rglob("*.*") if path.is_file()} == before
    shown = resources.get(Kind.EVALUATION, RENEW)
    copy = resources.create(Kind.EVALUATION, {**shown, "displayName": "a copy"}).resource
    assert copy is not None
    assert copy["golden"] == shown["golden"]
    assert copy["name"] == f"{APP}/evaluations/a-copy"  # of the only app that is there
    stored = json.loads((root / "evaluations/a_copy/a_copy.json").read_text())
    assert stored.keys().isdisjoint({"etag", "lastCompletedResult", "aggregatedMetrics"})


def test_evaluations_are_selected_by_tag_and_dataset(root: Path) -> None:
    resources = ServerResources(root)
    dataset = {"displayName": "nightly", "evaluations": [LOST, "bye"]}
    made = resources.create(Kind.DATASET, dataset, parent=APP).resource
    assert made is not None
    lost, renew, bye = (
        "evaluations/scenario_lost_card/scenario_lost_card.json:lost_card_scenario",
        f"{FILE}:renew_loan_happy_path",
        "evaluations/bye.yaml:bye",
    )
    for chosen, selections in [
        ({"tags": ["cards"]}, [lost]),
        ({"tags": ["loans", "cards"]}, [renew, lost]),
        ({"dataset": made["name"]}, [lost, bye]),
        ({"names": [RENEW], "dataset": made["name"], "tags": ["P1"]}, [renew, lost, bye]),
    ]:
        assert list(resources.selections(**chosen).values()) == selections, chosen
        listed = resources.listed(Kind.EVALUATION, **chosen)["evaluations"]  # type: ignore[arg-type]
        assert len(listed) == len(selections)
    message = refusal(lambda: resources.selections(tags=["card"])).message
    assert message == "no evaluation has the tag 'card'; did you mean `cards`?"
    path = root / "evaluationDatasets/nightly/nightly.json"
    path.write_text(path.read_text().replace('"bye"', '"by"'))
    assert refusal(lambda: resources.selections(dataset=made["name"])).code == "NOT_FOUND"


OTHER = "projects/p/locations/l/apps/other"
ONES = {"displayName": "y", "scenario": {"task": "t", "evaluationExpectations": ["one-questio"]}}


@pytest.mark.parametrize(
    ("kind", "body", "parent", "code", "where"),
    [
        # parents: no app, none that is here, an evaluation
        (Kind.EVALUATION, {"displayName": "y", "scenario": {"task": "t"}}, "apps/x", "INVALID_ARGUMENT", "parent"),
        (Kind.EVALUATION, {"displayName": "y", "scenario": {"task": "t"}}, OTHER, "NOT_FOUND", None),
        (Kind.EVALUATION, {"displayName": "y", "scenario": {"task": "t"}}, LOST, "INVALID_ARGUMENT", "parent"),
        # references that lead nowhere
        (Kind.EVALUATION, ONES, APP, "INVALID_ARGUMENT", "evaluation.scenario.evaluationExpectations[0]"),
        (Kind.DATASET, {"displayName": "n", "evaluations": [LOST, "x"]}, APP, "INVALID_ARGUMENT", "dataset.evaluations[1]"),
    ],
)  # fmt: skip
def test_parents_and_references_lead_somewhere(
    root: Path, kind: Kind, body: Any, parent: str, code: str, where: str | None
) -> None:
    resources = ServerResources(root)
    told = refusal(lambda: resources.create(kind, body, parent=parent))
    assert told.code == code
    assert where is None or where in [field for field, _ in told.violations]
    if where is None or where == "parent":
        assert refusal(lambda: resources.listed(kind, parent=parent)).code == code


def test_an_update_may_leave_a_reference_that_leads_nowhere(root: Path) -> None:
    """Whoever changes something else did not break it."""
    resources = ServerResources(root)
    made = resources.create(
        Kind.DATASET, {"displayName": "nightly", "evaluations": [LOST, RENEW]}, parent=APP
    ).resource
    assert made is not None
    (root / FILE).unlink()
    body = {"name": made["name"], "displayName": "weekly"}
    assert resources.update(Kind.DATASET, body).changes
    body = {"name": made["name"], "evaluations": [LOST, RENEW, "another"]}
    told = refusal(lambda: resources.update(Kind.DATASET, body))
    assert [field for field, _ in told.violations] == ["dataset.evaluations[2]"]


def test_only_changed_files_are_parsed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = read.parse
    monkeypatch.setattr(
        read,
        "parse",
        lambda text, *, file, kind=None: parsed.append(file) or parse(text, file=file, kind=kind),
    )
    resources = ServerResources(root)
    (root / "drafts").mkdir()
    resources.get(Kind.EVALUATION, RENEW)
    parsed.clear()
    resources.get(Kind.EVALUATION, RENEW)
    assert parsed == []

    def change(file: str, text: str) -> str:
        """The files that are parsed after a change of one."""
        (root / file).write_text(text)
        parsed.clear()
        resources.listed(Kind.EVALUATION)
        return " ".join(parsed)

    name = "drafts/new.json"
    new = json.dumps({"displayName": "new", "scenario": {"task": "t"}})
    assert change(name, new) == name
    # of the same length, in place
    assert change(name, new.replace('"new"', '"old"')) == name
    titles = [one["displayName"] for one in resources.listed(Kind.EVALUATION)["evaluations"]]
    assert "old" in titles
    change(".gitignore", "drafts/\n")
    titles = [one["displayName"] for one in resources.listed(Kind.EVALUATION)["evaluations"]]
    assert "old" not in titles
    change(".gitignore", "elsewhere\n")  # in place
    assert len(resources.listed(Kind.EVALUATION)["evaluations"]) == len(titles) + 1
    change("evalgate.yml", "exclude: ['evaluations/**', 'drafts/**']\n")
    assert resources.listed(Kind.EVALUATION)["evaluations"] == []


def test_links_that_lead_out_are_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    shutil.move(root / FILE, outside)
    (root / FILE).symlink_to(outside)
    before = outside.read_text()
    resources = ServerResources(root)
    assert (
        refusal(
            lambda: resources.update(Kind.EVALUATION, {"name": RENEW, "tags": []}, mask="tags")
        ).code
        == "NOT_FOUND"
    )
    # nor is a folder of the layout that is one
    shutil.rmtree(root / "evaluations")
    (tmp_path / "elsewhere").mkdir()
    (root / "evaluations").symlink_to(tmp_path / "elsewhere")
    body = {"displayName": "Return a book", "scenario": {"task": "Return it."}}
    assert refusal(lambda: resources.create(Kind.EVALUATION, body)).code == "PERMISSION_DENIED"
    assert outside.read_text() == before
    assert os.listdir(tmp_path / "elsewhere") == []  # noqa: PTH208 - names, not paths
