"""calibration.json: the agreement of a judge with people, for later runs. Its JSON schema is
published."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evalgate.model import Calibration
from evalgate.model.calibration import SCHEMA_VERSION
from evalgate.values import JsonObject

_FILE = TypeAdapter(Calibration)


def schema() -> JsonObject:
    """The JSON schema of calibration.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _FILE.json_schema()


def render(calibration: Calibration) -> str:
    """The file's text, without nulls, empty texts and empty objects."""
    document = _FILE.dump_python(calibration, mode="json")
    return json.dumps(_compact(document), ensure_ascii=True, indent=1) + "\n"


def _compact(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: _compact(value) for key, value in document.items() if value not in (None, "", {})
        }
    return list(map(_compact, document)) if isinstance(document, list | tuple) else document


def parse(text: str) -> Calibration:
    """Read a file of this or an earlier schema version. Raises ValueError with the reason for
    anything else."""
    try:
        calibration = _FILE.validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"]) or "the file"
        raise ValueError(f"`{location}`: {first_error['msg']}") from None
    if calibration.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"its schema version is {calibration.schema_version}, this evalgate reads {SCHEMA_VERSION}"
        )
    return calibration
