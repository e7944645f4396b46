"""What is kept of a child's output, whatever the size of its pieces."""

import gc
import itertools
import threading
import weakref

import pytest
from hypothesis import given, strategies as st

from evalgate.system import process
from evalgate.system.process import LineSplitter, LineTooLong, Tail, end_with_run, no_garbage_search

pieces = st.lists(st.binary(max_size=40), max_size=20)


@given(pieces, st.integers(min_value=1, max_value=30))
def test_a_tail_is_the_end_of_all_that_was_fed(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit=limit)
    for chunk in chunks:
        tail.feed(chunk)
    assert tail.last_bytes() == b"".join(chunks)[-limit:]
    assert tail.total == len(b"".join(chunks))


@pytest.mark.parametrize(
    ("fed", "limit", "text"),
    [
        (b"one\ntwo\n", None, "one\ntwo\n"),  # all of it fits
        (b"a long line\nlast\n", 8, "last\n"),  # the half line in front goes
        (b"one endless line", 7, "ss line"),  # no line end to cut at
        (b"caf\xc3", None, "caf\ufffd"),  # cut in the middle of a character
    ],
)
def test_the_text_of_a_tail_begins_with_a_whole_line(
    fed: bytes, limit: int | None, text: str
) -> None:
    tail = Tail(limit=100)
    tail.feed(fed)
    assert tail.text(limit=limit) == text


@given(
    st.lists(st.binary(max_size=10).filter(lambda line: b"\n" not in line), max_size=10), st.data()
)
def test_lines_do_not_depend_on_how_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter = LineSplitter(limit=10)
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(min_value=1, max_value=len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == lines
    assert splitter.remainder() == b"rest"


@pytest.mark.parametrize(
    "chunks", [[b"12345678901"], [b"123456", b"78901"], [b"ok\n12345678901\n"]]
)
def test_a_line_beyond_the_limit_is_refused_and_forgotten(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=10)
    with pytest.raises(LineTooLong):
        list(itertools.chain.from_iterable(splitter.feed(chunk) for chunk in chunks))
    assert len(splitter.remainder()) <= 12


class Cycle:
    """An object that only a search for garbage finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def ends_with_run(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Whether this process ends with its run, for one test."""
    event = threading.Event()
    monkeypatch.setattr(process, "_ENDS_WITH_RUN", event)
    return event


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.usefixtures("ends_with_run")
def test_a_process_that_goes_on_searches_for_garbage_as_before(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()
    gc.freeze()  # as somebody else may have done: it says nothing of us
    try:
        with no_garbage_search():
            is_searched = gc.isenabled()
            cycle = weakref.ref(Cycle())
        assert (is_searched, gc.isenabled()) == (False, is_enabled)
        gc.collect(0)
        assert cycle() is None
    finally:
        gc.enable()
        gc.freeze()


@pytest.mark.usefixtures("ends_with_run")
def test_a_process_that_ends_with_its_run_searches_in_nothing_that_remains() -> None:
    end_with_run()
    with no_garbage_search():
        cycle = weakref.ref(Cycle())
    gc.collect()
    assert cycle() is not None
