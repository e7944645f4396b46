"""calibration.json: the agreement of a judge with people, for later runs. Its JSON schema is
published. Readers must ignore keys that they do not know: later versions may add some."""

from __future__ import annotations

import json

from pydantic import TypeAdapter, ValidationError

from evalgate.model import Calibration
from evalgate.values import JsonObject

SCHEMA_VERSION = 1
_CALIBRATION = TypeAdapter(Calibration)


def schema() -> JsonObject:
    """The JSON schema of calibration.json."""
    file_schema = _CALIBRATION.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | file_schema


def render(calibration: Calibration) -> str:
    """The file's text, without nulls."""
    document = _CALIBRATION.dump_python(calibration, mode="json", exclude_none=True)
    return json.dumps(document, ensure_ascii=True, indent=1) + "\n"


def parse(text: str) -> Calibration:
    """Read a file of this or an earlier schema version. Raises ValueError with the reason for
    anything else."""
    try:
        calibration = _CALIBRATION.validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"]) or "the file"
        raise ValueError(f"`{location}`: {first_error['msg']}") from None
    version = calibration.schema_version
    if version > SCHEMA_VERSION:
        raise ValueError(f"its schema version is {version}, this evalgate reads {SCHEMA_VERSION}")
    return calibration
