"""`judge_model_config` and `model_configuration`: what google.genai takes as a GenerateContentConfig, as written."""

from __future__ import annotations

import functools
import json
import warnings
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from evalgate.text import words

REFUSED: Final = "bad_option"
"""The type of the pydantic error; its `ctx` has `at`, the path within the config, and `near`, a name or nothing."""


def _check(config: dict[str, Any]) -> dict[str, Any]:
    found = _refusal(json.dumps(config, sort_keys=True, default=str)) if config else None
    if found is not None:
        message, at, near = found
        raise PydanticCustomError("bad_option", "{message}", {"message": message, "at": at, "near": near})
    return config


@functools.lru_cache(maxsize=256)
def _refusal(config: str) -> tuple[str, tuple[str | int, ...], str] | None:
    """What google.genai has against the config: a message, the path within it, and the field that was meant."""
    from google.genai import types  # noqa: PLC0415 - takes a second to load, only where a config is given

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of enum values that it does not know, and takes them
        try:
            types.GenerateContentConfig.model_validate(json.loads(config))
        except ValidationError as error:
            return _told(error.errors(include_url=False)[0], types.GenerateContentConfig)
    return None


def _told(error: ErrorDetails, model: type[BaseModel]) -> tuple[str, tuple[str | int, ...], str]:
    at = error["loc"]
    name = ".".join(map(str, at))
    if error["type"] != "extra_forbidden":
        said = error["msg"].removeprefix("Input should be ").partition(", unable to ")[0]
        return f"`{name}` is {_short(error['input'])}, expected {said}", at, ""
    near = words.nearest(str(at[-1]), model.model_fields) if len(at) == 1 else None
    return f"google.genai's GenerateContentConfig has no field `{name}`", at, near or ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


GenerationConfig = Annotated[dict[str, Any], AfterValidator(_check)]
"""A pydantic type: an object that google.genai's GenerateContentConfig takes, in either spelling, as it was written."""
