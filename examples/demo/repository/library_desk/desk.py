"""The desk's tools: ordinary Python functions on a small catalogue."""

from typing import Any

from google.adk.tools import ToolContext

BOOKS: dict[str, dict[str, Any]] = {
    "B-101": {
        "title": "The Salt Road",
        "author": "Mira Quill",
        "shelf": "F QUI",
        "copies_in": 2,
        "waiting": 0,
    },
    "B-102": {
        "title": "Clockmaker's Orchard",
        "author": "Tomas Vell",
        "shelf": "F VEL",
        "copies_in": 0,
        "waiting": 3,
    },
    "B-103": {
        "title": "Birds of the Estuary",
        "author": "Ada Finch",
        "shelf": "598 FIN",
        "copies_in": 0,
        "waiting": 0,
    },
}

LOANS: dict[tuple[str, str], str] = {
    ("4417", "B-102"): "9 March",
    ("4417", "B-103"): "12 March",
}
"""When a book is due, by card number and book."""

HOURS: dict[str, dict[str, str]] = {
    "weekday": {"opens": "9:00", "closes": "19:00"},
    "saturday": {"opens": "10:00", "closes": "16:00"},
}


def search_catalogue(title: str) -> dict[str, Any]:
    """Finds books by their title.

    Args:
        title: The title, or a part of it.
    """
    found = [
        {"book_id": book_id, "title": book["title"], "author": book["author"]}
        for book_id, book in BOOKS.items()
        if title.lower() in book["title"].lower()
    ]
    return {"matches": found}


def check_availability(book_id: str) -> dict[str, Any]:
    """Tells how many copies stand on the shelf and how many readers wait for the book.

    Args:
        book_id: The book's number, as the catalogue gives it.
    """
    book = BOOKS[book_id]
    return {
        "book_id": book_id,
        "shelf": book["shelf"],
        "copies_in": book["copies_in"],
        "waiting": book["waiting"],
    }


def place_hold(book_id: str, card_number: str, tool_context: ToolContext) -> dict[str, Any]:
    """Puts a reader on the waiting list of a book.

    Args:
        book_id: The book's number.
        card_number: The reader's card.
    """
    tool_context.state["holds"] = [*tool_context.state.get("holds", []), book_id]
    return {"status": "held", "position": BOOKS[book_id]["waiting"] + 1}


def renew_loan(book_id: str, card_number: str) -> dict[str, Any]:
    """Renews a loan by three weeks.

    Args:
        book_id: The book's number.
        card_number: The reader's card.
    """
    if (card_number, book_id) not in LOANS:
        return {"status": "no such loan"}
    return {"status": "renewed", "due": "2 April"}


def opening_hours(day: str) -> dict[str, Any]:
    """Tells when the library opens and closes.

    Args:
        day: weekday, saturday or sunday.
    """
    return HOURS.get(day, {"closed": "all day"})
