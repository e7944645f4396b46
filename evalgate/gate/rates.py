"""How often one side passes: the rate of its runs, pass^k and pass@k."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evalgate.gate import proportions
from evalgate.model import PassRates


def rates(outcomes: Sequence[Sequence[float | None]]) -> PassRates | None:
    """From the outcomes (1 passed, 0 failed, None unknown) of every case; cases without a known one are left out.

    k is the fewest known runs of a case. pass^k: all of k runs pass, the mean over cases of C(passes, k) / C(runs, k);
    pass@k: at least one of k does. Source: Yao et al. 2024 (arXiv 2406.12045); Chen et al. 2021 (arXiv 2107.03374).
    """
    counts = [(sum(value == 1 for value in known), len(known)) for known in map(_known, outcomes) if known]
    if not counts:
        return None
    k = min(runs for _, runs in counts)
    passes, total = sum(hits for hits, _ in counts), sum(runs for _, runs in counts)
    return PassRates(
        k=k,
        rate=passes / total,
        interval=proportions.wilson(passes, total),
        all_of_k=math.fsum(math.comb(hits, k) / math.comb(runs, k) for hits, runs in counts) / len(counts),
        any_of_k=math.fsum(1 - math.comb(runs - hits, k) / math.comb(runs, k) for hits, runs in counts) / len(counts),
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
