"""The resources of a repository as the server gives them: pages of lists, selections, and the
results of the runs that were started here."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evalgate.results import output
from evalgate.text import words
from evalgate.values import Json, JsonObject, grouped, json_text, with_keys
from evalgate.wings.ces import read, results as ces_results, shapes
from evalgate.wings.ces.compare import LONGEST_SHOWN
from evalgate.wings.ces.edit import Refused, refusal
from evalgate.wings.ces.read import COLLECTION_OF, Kind, Library, Resource
from evalgate.wings.ces.resources import RUNS, Resources
from evalgate.wings.ces.shapes import AggregatedMetrics, EvaluationResult, ExecutionState, Outcome

PAGE_SIZE = 50
MAX_PAGE = 1000
MOST_VERSIONS = 3
"""The most versions of the agent whose metrics are shown: the newest."""


class ServerResources(Resources):
    """The resources below a root, also as lists and with their results. Every method raises Refused
    with a code of google.rpc for a rejected request."""

    def listed(
        self,
        kind: Kind,
        *,
        parent: str = "",
        page_size: int = 0,
        page_token: str = "",
        view: str = "BASIC",
        failing: bool = False,
        **chosen: Any,
    ) -> JsonObject:
        """One page of the resources of a kind, by name, and the token of the next page; each
        resource has the fields of a list, or all fields (FULL). `failing`: only evaluations whose
        last result is not a pass; `chosen`: see `select`."""
        if page_size < 0 or (page_token and not re.fullmatch(r"[0-9]{1,9}", page_token)):
            raise refusal(("pageSize" if page_size < 0 else "pageToken", "not a page of this list"))
        start = int(page_token or 0)
        size = min(page_size or PAGE_SIZE, MAX_PAGE)
        library = self.library()
        results = results_of(library)
        prefix = self._prefix(library, kind, parent) if parent else ""
        resources = [
            resource
            for resource in (
                self.select(library, **chosen) if any(chosen.values()) else library.of(kind)
            )
            if self.name_of(resource).startswith(prefix)
            and (
                not failing
                or any(
                    result.evaluation_status is not Outcome.PASS
                    for result in results.get(self.name_of(resource), [])[-1:]
                )
            )
        ]
        resources.sort(key=self.name_of)
        page = {
            COLLECTION_OF[kind]: [
                self._with_results(resource, library, results, is_full=view == "FULL")
                for resource in resources[start : start + size]
            ]
        }
        more = {"nextPageToken": str(start + size)} if start + size < len(resources) else {}
        return {**page, **more}

    def get(self, kind: Kind, name: str) -> JsonObject:
        """A resource by its name; an evaluation or a dataset has the results of its runs here."""
        library = self.library()
        resource = self._find(library, kind, name)
        return self._with_results(resource, library, results_of(library), is_full=True)

    def select(
        self,
        library: Library,
        *,
        names: Sequence[str] = (),
        dataset: str = "",
        tags: Collection[str] = (),
    ) -> list[Resource]:
        """The evaluations with these names, those of a dataset, and those with one of the tags."""
        evaluations = library.of(Kind.EVALUATION)
        selection = [self._find(library, Kind.EVALUATION, name) for name in names]
        if dataset:
            message = self._find(library, Kind.DATASET, dataset).message
            for evaluation in self._resolve(library, message):
                if isinstance(evaluation, str):
                    raise Refused("NOT_FOUND", evaluation)
                selection.append(evaluation)
        by_tag = grouped(
            (tag, evaluation) for evaluation in evaluations for tag in _tag_names(evaluation)
        )
        for tag in tags:
            if tag not in by_tag:
                hint = words.suggest(tag[:100], by_tag, prefix="; ")
                raise Refused("NOT_FOUND", f"no evaluation has the tag {tag[:100]!r}{hint}")
            selection += by_tag[tag]
        return list({(resource.file, resource.path): resource for resource in selection}.values())

    def selections(self, **chosen: Any) -> dict[str, str]:
        """Evaluations as a run names them (file and title) by their names; `chosen`: see
        `select`."""
        return {
            self.name_of(resource): f"{resource.file}:{resource.title}"
            for resource in self.select(self.library(), **chosen)
        }

    def keep(self, document: Json) -> Json:
        """Keep the runs and results of a `ces-results.json`, one file each; what has no app of its
        own is of the server's. Returns them as they are kept."""
        text = json.dumps(document).replace(f'"{shapes.LOCAL_APP}/', f'"{self._app}/')
        named_document: Json = json.loads(text)
        folder = self.root / RUNS
        output.make_folder(folder)
        for kind, key in ((Kind.RUN, "evaluationRuns"), (Kind.RESULT, "evaluationResults")):
            for resource in named_document[key]:
                # of the evaluation and the result, or of the run
                name = "-".join(str(resource["name"]).split("/")[7::2])
                path = folder / COLLECTION_OF[kind] / f"{read.file_name(name)}.json"
                output.write_file(path, [json_text(resource)])
        return named_document

    def _with_results(
        self,
        resource: Resource,
        library: Library,
        results: Mapping[str, list[EvaluationResult]],
        *,
        is_full: bool,
    ) -> JsonObject:
        """The shown fields of a resource, all or those of a list, with the results of its runs."""
        view = self.view(resource)
        names = [self.name_of(resource)]
        if resource.kind is Kind.DATASET:
            names = [
                self.name_of(evaluation)
                for evaluation in self._resolve(library, resource.message)
                if not isinstance(evaluation, str)
            ]
        completed = [
            result
            for name in names
            for result in results.get(name, ())
            if result.execution_state is ExecutionState.COMPLETED
        ]
        if completed and resource.kind in (Kind.EVALUATION, Kind.DATASET):
            view["aggregatedMetrics"] = metrics_of(completed).json()
        if completed and resource.kind is Kind.EVALUATION:
            view["lastCompletedResult"] = completed[-1].json()
        return view if is_full else _summary(view)


_LIST_FIELDS = (
    *("name", "displayName", "description", "tags", "etag", "state", "progress"),
    *("evaluationStatus", "executionState", "createTime", "errorInfo", "evaluations"),
    *("llmCriteria",),
)
_RESULT_FIELDS = ("name", "evaluationStatus", "createTime")
_VERSION_FIELDS = ("appVersionId", "passCount", "failCount")
"""The fields in a list: of a resource, of its last result and of a version's metrics."""


def _summary(view: Json) -> JsonObject:
    """A resource in a list, as a message of the API: its main fields and its last result."""
    summary = with_keys(view, _LIST_FIELDS)
    if "golden" in view:
        summary["golden"] = {}  # that it is one
    elif "scenario" in view:
        summary["scenario"] = {"task": str(view["scenario"].get("task", ""))[:LONGEST_SHOWN]}
    if "lastCompletedResult" in view:
        summary["lastCompletedResult"] = with_keys(view["lastCompletedResult"], _RESULT_FIELDS)
    if "aggregatedMetrics" in view:
        versions = [
            with_keys(version, _VERSION_FIELDS)
            for version in view["aggregatedMetrics"]["metricsByAppVersion"]
        ]
        summary["aggregatedMetrics"] = {"metricsByAppVersion": versions}
    return summary


def _tag_names(resource: Resource) -> tuple[str, ...]:
    return getattr(resource.message, "tags", ())


def results_of(library: Library) -> dict[str, list[EvaluationResult]]:
    """The results of each evaluation, by the evaluation's name, the newest last."""
    messages = (resource.message for resource in library.of(Kind.RESULT))
    results = [message for message in messages if isinstance(message, EvaluationResult)]
    results.sort(key=lambda result: result.create_time or "")
    return grouped((ces_results.evaluation_of(result), result) for result in results)


def metrics_of(evaluation_results: list[EvaluationResult]) -> AggregatedMetrics:
    """The metrics of the newest versions of the agent, the newest last."""
    by_version: dict[str, list[EvaluationResult]] = {}
    for result in evaluation_results:
        version = result.app_version.rpartition("/")[2]
        by_version[version] = [*by_version.pop(version, ()), result]
    newest = dict(list(by_version.items())[-MOST_VERSIONS:])
    return ces_results.version_metrics(newest)
