"""Draws docs/images/rooms.svg from the code: the rooms of evalgate/, top floor first, and which
imports which.

An arrow that follows from others is left out: where a room imports a second one, and that one a
third, the first may import the third as well. `make docs` draws the picture, and a test fails where
it is not what the code says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

import grimp

WIDTH, FLOOR, BOX_WIDTH, BOX_HEIGHT, MARGIN = 760, 64, 104, 30, 16
DOORS = ("action", "api", "cli")

STYLE = """\
text { font: 13px ui-sans-serif, system-ui, sans-serif; text-anchor: middle; fill: #1f2328 }
rect { fill: #ddf4ff; stroke: #0969da; rx: 6px } .door { fill: #dafbe1; stroke: #1a7f37 }
path { fill: none; stroke: #8c959f; marker-end: url(#head) } marker path { fill: #8c959f; marker-end: none }
svg { background: #ffffff }"""

HEAD = """\
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z"/></marker>"""

Edge = tuple[str, str]


def imports_of(package: str) -> set[Edge]:
    """Which room imports which; a module beside the rooms (`errors`, `action`) counts as one."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            edges.add((_room(module), _room(imported)))
    return {
        (above, below)
        for above, below in edges
        if above not in (below, "__main__") and above and below
    }


def _room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def needed(edges: Iterable[Edge]) -> list[Edge]:
    """The edges that do not follow from others, in order. There must be no cycle."""
    below: dict[str, set[str]] = {}
    for start, end in edges:
        below.setdefault(start, set()).add(end)

    @functools.cache
    def reached(room: str) -> frozenset[str]:
        direct = below.get(room, set())
        return frozenset(direct).union(*(reached(each) for each in direct))

    return sorted(
        (a, b)
        for a in below
        for b in below[a]
        if not any(b in reached(other) for other in below[a] - {b})
    )


def floors_of(edges: Sequence[Edge]) -> dict[str, int]:
    """The floor of each room, 0 on top: each stands one below the lowest that imports it, the doors
    side by side."""
    floors = dict.fromkeys(sorted({room for edge in edges for room in edge}), 0)
    for _ in floors:
        for above, below in edges:
            floors[below] = max(floors[below], floors[above] + 1)
    return floors


def places_of(edges: Sequence[Edge]) -> tuple[Mapping[str, tuple[float, float]], list[list[str]]]:
    """Where each room and each bend of an arrow stands, and the arrows as rows of them.

    An arrow has a bend on every floor that it passes. Each floor is put in the order of what stands
    above and below."""
    floors = floors_of(edges)
    rows: list[list[str]] = [[] for _ in range(max(floors.values()) + 1)]
    for room, floor in floors.items():
        rows[floor].append(room)
    arrows = []
    for above, below in edges:
        bends = [f"{above}>{below}@{floor}" for floor in range(floors[above] + 1, floors[below])]
        for floor, bend in enumerate(bends, start=floors[above] + 1):
            rows[floor].append(bend)
        arrows.append([above, *bends, below])
    beside: dict[str, list[str]] = {}
    for arrow in arrows:
        for start, end in itertools.pairwise(arrow):
            beside.setdefault(start, []).append(end)
            beside.setdefault(end, []).append(start)
    across = _spread(rows)
    for _ in range(24):
        for row in rows:
            row.sort(
                key=lambda name: (
                    round(sum(across[each] for each in beside[name]) / len(beside[name]), 6),
                    name,
                )
            )
            across |= _spread([row])
    return {
        name: (across[name], MARGIN + FLOOR * floor)
        for floor, row in enumerate(rows)
        for name in row
    }, arrows


def _spread(rows: Iterable[Sequence[str]]) -> dict[str, float]:
    """Names evenly over the width; a bend needs less room."""
    across = {}
    for row in rows:
        widths = [0.35 if "@" in name else 1.0 for name in row]
        unit, done = WIDTH / sum(widths), 0.0
        for name, width in zip(row, widths, strict=True):
            across[name] = (done + width / 2) * unit
            done += width
    return across


def render(package: str = "evalgate") -> str:
    """The picture as SVG."""
    places, arrows = places_of(needed(imports_of(package)))
    height = max(y for _, y in places.values()) + BOX_HEIGHT + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">',
        f"<title>The rooms of {package}/ and which imports which; arrows lead down only</title>",
        f"<style>{STYLE}</style>",
        f"<defs>{HEAD}</defs>",
    ]
    lines += [f'<path d="{_curve([places[name] for name in arrow])}"/>' for arrow in arrows]
    for name, (x, y) in places.items():
        if "@" not in name:
            kind = ' class="door"' if name in DOORS else ""
            box = f'x="{x - BOX_WIDTH / 2:.0f}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
            lines.append(f'<rect{kind} {box}/><text x="{x:.0f}" y="{y + 20:g}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """From below the first box to above the last one, upright at every point."""
    first, last = points[0], points[-1]
    stops = [
        (first[0], first[1] + BOX_HEIGHT),
        *((x, y + BOX_HEIGHT / 2) for x, y in points[1:-1]),
        last,
    ]
    path = f"M{stops[0][0]:.0f} {stops[0][1]:g}"
    for (x, y), (to_x, to_y) in itertools.pairwise(stops):
        middle = (y + to_y) / 2
        path += f" C{x:.0f} {middle:g} {to_x:.0f} {middle:g} {to_x:.0f} {to_y:g}"
    return path
