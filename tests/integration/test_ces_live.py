"""`evalgate ces pull | push | drift` against a local double of the API, with google-auth's real
token exchange."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import ces_double, google_account
from builders.ces_double import APP, Asked, CesDouble, Refusal
from click.testing import CliRunner, Result

from evalgate.cli import cli
from evalgate.wings.ces import live
from evalgate.wings.ces.live import Live, LiveFailed

pytestmark = pytest.mark.integration

DATA = Path(__file__).parents[1] / "data/ces"
TOKEN = "ya29.a-token-of-google"
GOLDEN = "evaluations/renew_loan_happy_path/renew_loan_happy_path.json"
RENEW = f"{APP}/evaluations/renew-loan-happy-path"
ONE = f"{APP}/evaluationExpectations/one-question-at-a-time"
LEVEL = "semanticSimilaritySuccessThreshold"


def example(name: str) -> Any:
    return json.loads(
        (DATA / name).read_text().replace("projects/local/locations/local/apps/library-desk", APP)
    )


@pytest.fixture
def double() -> Iterator[CesDouble]:
    """An app with an evaluation of each kind, an expectation, a dataset, thresholds and a
    persona."""
    with ces_double.running() as made:
        made.token = TOKEN
        made.put(RENEW, example("golden_library_renewal.json"))
        made.put(f"{APP}/evaluations/lost-card-scenario", example("scenario_lost_card.json"))
        made.put(ONE, example("expectation_one_question.json"))
        made.put(
            f"{APP}/evaluationDatasets/night", {"displayName": "nightly", "evaluations": [RENEW]}
        )
        persona = {
            "name": f"{APP}/evaluationPersonas/p1",
            "displayName": "p",
            "personality": "curt",
        }
        turns = {"turnLevelMetricsThresholds": {LEVEL: 3}}
        made.put_referenced()
        made.change(
            APP,
            evaluationMetricsThresholds={"goldenEvaluationMetricsThresholds": turns},
            evaluationPersonas=[persona],
        )
        made.asked.clear()
        yield made


@pytest.fixture
def called(
    double: CesDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Calls `evalgate ces` in an empty folder."""
    monkeypatch.setenv(
        "GOOGLE_APPLICATION_CREDENTIALS",
        str(google_account.written(tmp_path, f"{double.url}/token")),
    )
    monkeypatch.setenv("CES_API_ENDPOINT", double.url)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(live, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")

    def call(*args: str) -> Result:
        done = CliRunner().invoke(cli, ["ces", *args], catch_exceptions=False)
        assert TOKEN not in done.output
        return done

    return call


@pytest.fixture
def pulled(called: Callable[..., Result]) -> Path:
    assert called("pull", "--app", APP).exit_code == 0
    return Path()


def edited(file: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content, indent=2) + "\n")


def test_pull_writes_the_layout_of_an_export(
    double: CesDouble, called: Callable[..., Result]
) -> None:
    done = called("pull", "--app", APP)
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        0,
        "5 differences, 0 that may relax",
    )
    files = sorted(str(path) for path in Path().rglob("*.json") if path.parts[0] != ".evalgate")
    assert files == [
        "app.json",
        "evaluationDatasets/nightly/nightly.json",
        "evaluationExpectations/one_question_at_a_time/one_question_at_a_time.json",
        "evaluations/lost_card_scenario/lost_card_scenario.json",
        GOLDEN,
    ]
    golden = json.loads(Path(GOLDEN).read_text())
    assert (golden["name"], golden["etag"]) == (RENEW, double.resources[RENEW].etag)
    assert "updateTime" not in golden
    done = CliRunner().invoke(cli, ["validate"])
    assert done.exit_code == 0, done.output
    # the files say which app is meant, and nothing differs any more
    for command in ("drift", "pull", "push"):
        done = called(command)
        assert (done.exit_code, done.output) == (0, "0 differences, 0 that may relax\n"), command
    assert not double.asked_for("PATCH")
    assert double.asked_for("GET")[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_drift_is_told_by_field_and_pull_changes_one_value(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    before = Path(GOLDEN).read_text()
    double.change(RENEW, description="changed in the console")
    double.put(f"{APP}/evaluations/new-one", {"displayName": "new one", "scenario": {"task": "t"}})
    done = called("drift")
    assert done.exit_code == 1
    assert "evaluation new one: only in the app\n" in done.output
    assert 'evaluation renew_loan_happy_path: description: "' in done.output
    assert called("pull").exit_code == 0
    lines = zip(before.splitlines(), Path(GOLDEN).read_text().splitlines(), strict=True)
    assert [left.split(":")[0].strip() for left, right in lines if left != right] == [
        '"etag"',
        '"description"',
    ]
    assert called("drift").exit_code == 0


# what changes in the file, and in the app; the exit code, what is said, what the file has then
Change = Callable[[Any], None]
DESCRIBED = "of the console"
MERGED: list[tuple[Change, dict[str, Any], int, str, dict[str, Any]]] = [
    # nobody changed anything
    (lambda each: None, {}, 0, "0 differences", {"tags": ["P0", "loans"]}),
    # the app alone
    (lambda each: None, {"tags": ["P1"]}, 0, "2 differences", {"tags": ["P1"]}),
    # the file alone
    (lambda each: each.update(tags=["P2"]), {}, 0, "tags changed in evaluations/renew", {"tags": ["P2"]}),
    # both, in different fields
    (
        lambda each: each.update(tags=["P2"]),
        {"description": DESCRIBED},
        0,
        "1 difference",
        {"tags": ["P2"], "description": DESCRIBED},
    ),
    # both the same
    (lambda each: each.update(tags=["P1"]), {"tags": ["P1"]}, 0, "0 differences", {"tags": ["P1"]}),
    # both, in one field: not even the other field is written
    (
        lambda each: each.update(tags=["P2"]),
        {"tags": ["P1"], "description": DESCRIBED},
        1,
        "refused: evaluation renew_loan_happy_path: tags changed in the app and in evaluations/renew",
        {"tags": ["P2"]},
    ),
    # cleared in the file, changed in the app
    (lambda each: each.pop("description"), {"description": DESCRIBED}, 1, "description changed in", {}),
    # the user's field in the file, the whole group in the app
    (
        lambda each: each["golden"]["turns"].pop(),
        {"golden": None, "scenario": {"task": "t"}},
        1,
        "golden changed in the app and in",
        {"scenario": None},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "theirs", "status", "said", "after"), MERGED, ids=range(len(MERGED))
)
def test_pull_writes_over_no_edit(
    double: CesDouble,
    called: Callable[..., Result],
    pulled: Path,
    mine: Change,
    theirs: dict[str, Any],
    status: int,
    said: str,
    after: dict[str, Any],
) -> None:
    edited(pulled / GOLDEN, mine)
    if theirs:
        double.change(RENEW, **theirs)
    before = Path(GOLDEN).read_bytes()
    dry = called("pull", "--dry-run")
    assert Path(GOLDEN).read_bytes() == before
    done = called("pull")
    assert (done.exit_code, done.output) == (status, dry.output)
    assert said in done.output
    content = json.loads(Path(GOLDEN).read_text())
    assert {key: content.get(key) for key in after} == after
    if status:
        assert Path(GOLDEN).read_bytes() == before
        assert called("pull", "--overwrite").exit_code == 0
    else:  # what the file has more is no stale push
        assert called("push").exit_code == 0
    assert called("drift").exit_code == 0


def test_an_edit_after_a_push_is_no_conflict(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    edited(pulled / GOLDEN, lambda each: each.update(tags=["P2"]))
    assert called("push").exit_code == 0
    double.change(RENEW, tags=["P3"])
    assert called("pull").exit_code == 0
    assert json.loads(Path(GOLDEN).read_text())["tags"] == ["P3"]


def test_in_a_fresh_clone_the_etag_says_what_was_pulled(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    edited(pulled / GOLDEN, lambda each: each.update(tags=["P2"]))
    shutil.rmtree(".evalgate")
    assert called("pull").exit_code == 0  # the app has not changed since
    assert json.loads(Path(GOLDEN).read_text())["tags"] == ["P2"]
    shutil.rmtree(".evalgate")
    double.change(RENEW, tags=["P1"])
    done = called("pull")
    assert done.exit_code == 1
    assert "tags differ in evaluations/" in done.output
    assert "what was pulled is not known here" in done.output


def test_no_link_leads_what_is_kept_out_of_the_folder(
    double: CesDouble, called: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path(".evalgate/ces").mkdir(parents=True)
    Path(".evalgate/ces/pulled").symlink_to(tmp_path / "elsewhere")
    done = called("pull", "--app", APP)
    assert (done.exit_code, "leads out of the root" in done.output) == (1, True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_service_that_turns_many_requests_away(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    """Pages of three, 429 once in ten and bursts of 503: all arrives, and nothing twice."""
    for number in range(20):
        double.put(
            f"{APP}/evaluations/one-{number}", {"displayName": f"one {number}", "scenario": {"task": "t"}}
        )  # fmt: skip
    assert called("pull").exit_code == 0
    files = list(Path("evaluations").rglob("one_*.json"))
    assert len(files) == 20
    for file in files:
        edited(file, lambda each: each.update(tags=["P1"]))
    assert called("push").exit_code == 0
    assert called("drift").exit_code == 0
    assert sorted(each.body["name"] for each in double.asked_for("PATCH")) == sorted(
        f"{APP}/evaluations/one-{number}" for number in range(20)
    )
    assert len(double.turned_away) > 6


# what changes, the mask, what is sent
PUSHED: list[tuple[str, Callable[[Any], None], str, dict[str, Any]]] = [
    (GOLDEN, lambda each: each.update(tags=["P1"]), "tags", {"tags": ["P1"]}),
    (GOLDEN, lambda each: each.pop("description"), "description", {}),  # cleared
    (
        GOLDEN,
        lambda each: each["golden"].pop("evaluationExpectations"),
        "golden.evaluationExpectations",
        {"golden": "whole"},
    ),
    (
        "app.json",  # the settings of the app, and no more of it
        lambda each: each["evaluationPersonas"][0].update(personality="kind"),
        "evaluationPersonas",
        {"evaluationPersonas": "whole"},
    ),
    (
        "app.json",
        lambda each: each["evaluationMetricsThresholds"]["goldenEvaluationMetricsThresholds"][
            "turnLevelMetricsThresholds"
        ].update({LEVEL: 4}),
        f"evaluationMetricsThresholds.goldenEvaluationMetricsThresholds.turnLevelMetricsThresholds.{LEVEL}",
        {"evaluationMetricsThresholds": "whole"},
    ),
    (
        # the other of the group: `scenario` goes with it
        "evaluations/lost_card_scenario/lost_card_scenario.json",
        lambda each: (
            each.pop("scenario"),
            each.update(golden={"turns": [{"steps": [{"userInput": {"text": "hi"}}]}]}),
        ),
        "golden",
        {"golden": "whole"},
    ),
]


@pytest.mark.parametrize(
    ("file", "change", "mask", "sent"), PUSHED, ids=[each[2] for each in PUSHED]
)
def test_push_updates_what_changed_and_no_more(
    double: CesDouble,
    called: Callable[..., Result],
    pulled: Path,
    file: str,
    change: Callable[[Any], None],
    mask: str,
    sent: dict[str, Any],
) -> None:
    edited(Path(file), change)
    etag = json.loads(Path(file).read_text())["etag"]
    told = called("push", "--dry-run").output
    assert not double.asked_for("PATCH")
    done = called("push")
    assert (done.exit_code, done.output) == (0, told)
    (asked,) = double.asked_for("PATCH")
    assert asked.query == {"updateMask": mask}
    assert asked.body["etag"] == etag
    assert asked.body.keys() - {"name", "etag"} == sent.keys()
    assert called("drift").exit_code == 0
    stored = double.resources[asked.body["name"]]
    # noted, so that the next push is no stale one
    assert json.loads(Path(file).read_text())["etag"] == stored.etag


@pytest.mark.parametrize("action", ["pull", "push", "drift"])
def test_in_ci_the_files_of_a_change_do_not_say_which_app_is_meant(
    double: CesDouble,
    called: Callable[..., Result],
    pulled: Path,
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", "true")
    edited(pulled / GOLDEN, lambda raw: raw.update(description="of another app"))
    double.asked.clear()
    done = called(action)
    assert (done.exit_code, double.asked) == (2, []), done.output
    assert "in CI the app must be named" in done.output
    assert called(action, "--app", APP).exit_code == (1 if action == "drift" else 0)


def test_what_relaxes_is_told_and_refused(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    edited(Path(GOLDEN), lambda each: each["golden"].pop("evaluationExpectations"))
    edited(Path(GOLDEN), lambda each: each.update(tags=["P1"]))
    done = called("push", "--no-relaxing")
    assert done.exit_code == 2
    assert "nothing was pushed, because it may relax" in done.output
    assert not double.asked_for("PATCH")
    done = called("push")
    assert "(not set) (may relax)" in done.output
    assert done.exit_code == 0


def test_what_was_changed_in_the_app_since_the_pull_is_not_written_over(
    double: CesDouble, called: Callable[..., Result], pulled: Path
) -> None:
    edited(Path(GOLDEN), lambda each: each.update(tags=["P1"]))
    double.change(RENEW, description="changed in the console")
    done = called("push")
    assert done.exit_code == 1
    assert "refused: evaluation renew_loan_happy_path: ABORTED: the etag is stale" in done.output
    assert list(double.resources[RENEW].tags) != ["P1"]
    assert called("push", "--overwrite").exit_code == 0
    assert (
        list(double.resources[RENEW].tags),
        "console" in double.resources[RENEW].description,
    ) == (["P1"], False)


def test_push_creates_what_the_app_lacks_by_the_names_of_the_app(
    double: CesDouble, called: Callable[..., Result]
) -> None:
    """Files as an export has them: without names, with display names where the API has names."""
    double.put(
        f"{APP}/tools/t-1", {"displayName": "find_loans", "pythonFunction": {"name": "find_loans"}}
    )
    call = {"expectation": {"toolCall": {"tool": "find_loans"}}}
    golden = {
        "turns": [{"steps": [{"userInput": {"text": "hi"}}, call]}],
        "evaluationExpectations": ["polite"],
    }
    for collection, content in (
        ("evaluations", {"displayName": "greets", "golden": golden}),
        ("evaluationExpectations", {"displayName": "polite", "llmCriteria": {"prompt": "Polite?"}}),
        ("evaluationDatasets", {"displayName": "all", "evaluations": ["greets"]}),
    ):
        title = str(content["displayName"])
        Path(collection, title).mkdir(parents=True)
        Path(collection, title, f"{title}.json").write_text(json.dumps(content, indent=2))
    done = called("push", "--app", APP)
    assert done.exit_code == 0, done.output
    assert "evaluation greets: created" in done.output
    assert "evaluation lost_card_scenario: only in the app, left" in done.output
    made = {each.display_name: each for each in double.resources.values()}
    assert made["greets"].golden.turns[0].steps[1].expectation.tool_call.tool == f"{APP}/tools/t-1"
    assert list(made["greets"].golden.evaluation_expectations) == [made["polite"].name]
    assert list(made["all"].evaluations) == [made["greets"].name]
    # the file has its name and etag now, and is else as it was written
    written = json.loads(Path("evaluations/greets/greets.json").read_text())
    assert (written["name"], written["golden"]) == (made["greets"].name, golden)
    done = called("push")
    assert done.output.endswith("0 differences, 0 that may relax\n")


def test_fields_that_the_api_has_and_we_do_not_know(
    double: CesDouble, called: Callable[..., Result], pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API may be newer: what is unknown is told, and no push takes it away."""
    listed = Live.listed

    def newer(self: Live, parent: str, collection: str, **more: Any) -> Iterator[dict[str, Any]]:
        for each in listed(self, parent, collection, **more):
            if each["name"] == RENEW:
                each["golden"]["turns"][0]["mood"] = "good"
            yield each

    monkeypatch.setattr(Live, "listed", newer)
    edited(Path(GOLDEN), lambda each: each["golden"]["turns"].pop())
    done = called("push")
    assert done.exit_code == 1
    assert "golden.turns[0].mood, which evalgate does not know, would be lost" in done.output
    edited(Path(GOLDEN), lambda each: each.update(tags=["P1"]))
    done = called("pull")
    assert (done.exit_code, "`golden.turns[0].mood` is unknown, left out" in done.output) == (
        0,
        True,
    )


def refuse(code: int) -> Callable[[Asked], None]:
    def before(asked: Asked) -> None:
        raise Refusal(code, "no\x1b[2Jway")

    return before


FAULTS: list[tuple[dict[str, Any], tuple[str, ...], int, str]] = [  # of the double; exit code
    # a token that is renewed is another one, and no fault
    ({"token": "other"}, ("drift", "--app", APP), 0, ""),
    ({"before": refuse(16)}, ("drift", "--app", APP), 3, "the CES API: UNAUTHENTICATED"),
    ({"before": refuse(5)}, ("drift", "--app", APP), 2, "NOT_FOUND: no"),
    ({}, ("drift",), 2, "the files name no app"),
    ({}, ("drift", "--app", "desk"), 2, "'desk' is not the name of an app"),
    ({}, ("drift", "--app", f"{APP}x"), 2, "NOT_FOUND"),
    ({}, ("drift", "nowhere", "--app", APP), 2, "nowhere is not a folder"),
    ({}, ("drift", "--app", APP, "--endpoint", "http://127.0.0.1:9"), 3, "UNREACHABLE"),
    ({}, ("drift", "--app", APP, "--endpoint", "http://example.com"), 2, "is no https:// address"),
    ({}, ("push", "--app", APP), 0, "only in the app, left"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "args", "status", "said"), FAULTS, ids=range(len(FAULTS)))
def test_what_goes_wrong_is_told(
    double: CesDouble,
    called: Callable[..., Result],
    changed: dict[str, Any],
    args: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    for name, value in changed.items():
        setattr(double, name, value)
    done = called(*args)
    assert said in done.output
    assert "\x1b" not in done.output
    assert done.exit_code == (status or int(args[0] == "drift"))


def test_an_app_without_evaluations_and_no_files_is_not_a_pass(
    double: CesDouble, called: Callable[..., Result]
) -> None:
    double.resources.clear()
    double.put(APP, {"displayName": "empty"})
    assert called("drift", "--app", APP).exit_code == 4


def test_an_answer_that_is_no_json_and_a_token_in_no_message(
    double: CesDouble, called: Callable[..., Result]
) -> None:
    live = Live({"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}, endpoint=double.url)
    with pytest.raises(LiveFailed, match="UNAUTHENTICATED: no Google Cloud credentials"):
        live.get(APP)
