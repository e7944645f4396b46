"""What google.genai would refuse of a judge's config is refused where it is read."""

import warnings

import pytest
from pydantic import BaseModel, ValidationError

from evalgate.config import gate_file
from evalgate.config.gate_file import GenerationConfig


class Holder(BaseModel):
    config: GenerationConfig | None = None


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"temperature": 0, "topP": 0.5, "top_k": 3},  # both spellings
        {"temperature": "0.5"},  # pydantic reads numbers from text, there too
        {"http_options": {"extra_body": {"x": 1}}},
        # a newer service may know it
        {"safety_settings": [{"category": "HARM_NEW", "threshold": "y"}]},
    ],
)
def test_what_google_genai_takes_stays_as_written(config):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Holder(config=config).config == config


@pytest.mark.parametrize(
    ("config", "at", "reason"),
    [
        ({"temprature": 0.0}, ("temprature",), "unknown key"),
        ({"Temperature": 0.0}, ("Temperature",), "unknown key"),
        ({"temperature": "hot"}, ("temperature",), 'must be a valid number, found "hot"'),
        ({"thinking_config": {"budget": 1}}, ("thinking_config", "budget"), "unknown key"),
    ],
)
def test_what_it_refuses_is_an_error_at_its_place(config, at, reason):
    with pytest.raises(ValidationError) as caught:
        Holder(config=config)
    [error] = caught.value.errors()
    assert (error["type"], error["loc"]) == (gate_file.REFUSED, ("config",))
    assert error["ctx"]["at"] == at
    assert error["msg"].startswith(f"`{'.'.join(at)}`")
    assert error["msg"].endswith(reason)


@pytest.mark.parametrize(
    "config",
    [
        {"response_schema": {"type": ["STRING"]}},
        {"safety_settings": [{"category": {"a": 1}}]},
    ],
)
def test_what_is_no_text_where_a_word_is_expected_is_refused(config):
    with pytest.raises(ValidationError) as caught:
        Holder(config=config)
    [error] = caught.value.errors()
    assert (error["type"], error["ctx"]["at"]) == (gate_file.REFUSED, ())
    assert "google.genai's GenerateContentConfig" in error["msg"]
