"""Sentences: values that equal their text, and that nothing secret stays in."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from evalgate.values import Sentence, Wording, mapped_wording

FACTS = [
    # the facts of `base_borrowed`, which is one text, and the text
    (("venv",), "venv"),
    # a fact may be a sentence
    ((Sentence("base_borrowed", "inner"),), "inner"),
]


@pytest.mark.parametrize(("facts", "part"), FACTS)
def test_a_sentence_equals_its_text(facts: tuple[object, ...], part: str) -> None:
    sentence = Sentence("base_borrowed", *facts)
    text = str(sentence)
    assert part in text
    assert part in sentence
    assert sentence == text == sentence
    assert sentence != f"{text}!"
    assert sentence != 1
    assert {sentence: 1}[text] == 1  # type: ignore[index]
    assert sentence


def test_its_words_are_looked_for_when_they_are_asked_for() -> None:
    sentence = Sentence("no_such_macro")
    with pytest.raises(AttributeError, match="no_such_macro"):
        str(sentence)


def test_files_keep_the_text() -> None:
    adapter = TypeAdapter(Wording)
    sentence = Sentence("suite_empty")
    document = adapter.dump_json(sentence)
    assert adapter.validate_json(document) == sentence
    assert adapter.json_schema() == {"type": "string"}


def test_a_change_reaches_every_text_in_it() -> None:
    sentence = Sentence("samples_failed", 1, 2, Sentence("base_borrowed", "key-123"))
    clean = mapped_wording(sentence, lambda text: text.replace("123", "***"))
    assert "key-123" in sentence
    assert "key-***" in clean
    assert "123" not in repr(clean)
    assert mapped_wording("key-123", str.upper) == "KEY-123"
