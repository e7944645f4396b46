"""How often gates block pull requests that changed nothing, and how often they see those that broke something.

    python bench/statistics.py [--draws 4000] [--only line,criteria] [--write]

Simulates pull requests (bench/simulated.py), prints tables, and writes them into docs/statistics.md with --write. Then
compares 10,000 cases x 5 repeats in a process of its own. The last line is JSON. Parts that cost much have an eighth of
the draws; with --only, which runs some parts alone, they have all of them.
"""

from __future__ import annotations

import sys

if __name__ == "statistics":
    # A script of this folder, or what it imports, wants the standard library's module of the same name.
    import importlib.util
    import sysconfig
    from pathlib import Path

    _file = Path(sysconfig.get_path("stdlib")) / "statistics.py"
    _spec = importlib.util.spec_from_file_location("statistics", _file)
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["statistics"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["statistics"])
else:
    import argparse
    import dataclasses
    import json
    import multiprocessing
    import resource
    import subprocess
    import time
    from collections.abc import Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path
    from random import Random
    from typing import TypeAlias

    import simulated
    from simulated import CHANGES, MIXES, OTHERS, TOSSES, TYPICAL

    from evalgate.comparison import compare, power
    from evalgate.comparison import verdict as comparison_verdict
    from evalgate.model import BaseOrigin, BaseSource, CriterionUse, GradedTrial, Policy, Run, Score

    PAGE = Path(__file__).resolve().parents[1] / "docs/statistics.md"
    FIRST, MORE = 2, 3
    DEFAULT_CHANGES = ("none", "1 broken", "3 broken")
    DEFAULT_MIXES = (*MIXES, *simulated.UNSTABLE)
    HOPELESS = 0.3
    STEP_RATES, STEP_DROPS = (0.85, 0.7, 0.5), (0.04, 0.045, 0.05, 0.06, 0.068, 0.072)
    AFTER = 8
    """Pull requests after each power line, which costs most."""
    WORDS = {
        "fixed": "How often the regression gate blocks by itself, beside what others do ({cases} cases). Where nothing "
        "changed (`none`), every block is a false one.",
        "adaptive": "Adaptive repeats (`start: {first}`, `more: {more}`) beside {both} fixed ones:",
        "default": "The default verdict, both gates together: how often it blocks; how often by cases that pass 3 "
        "times in 10 or more, or by a regression; the agent calls of both sides, with reruns, beside those of the "
        "first runs; and how often `threshold: all` blocks.",
        "criteria": "Several criteria (.98/.8/.4): the regression gate by itself, and the default verdict.",
        "judges": "An agent that always does the same, and a judge that is right in 9 or 7 of 10 verdicts, with one "
        "verdict for all runs of a side and with a fresh one for each (what evalgate asks for): how often the default "
        "verdict blocks though nothing changed.",
        "stored": "A stored base: 20 pull requests beside the same runs of it, of one base run (3), or pooled from "
        "several (.98/.8/.4; 3 runs of head). How many of them the regression gate blocks by itself.",
        "unchanged": "How often a row says `unchanged` though every case passes 10 points less often (the most of all "
        "mixes):",
        "line": "The power line: how often a drop as large as the one that it names is seen, by the default verdict "
        "(a regression, or a confirmed failure of a case that fell) and under `threshold: all`; cases break one after "
        "the other. A line for every 8 pull requests.",
        "steps": "The same where all cases pass equally often: how often the default verdict sees a drop, with one run "
        "per side:",
        "crashes": "Crashes: an agent that passes every case, but breaks down in a share of its runs, on both sides or "
        "more often on head ({cases} cases). How often any run of head crashed, how often the default verdict blocks, "
        "and the agent calls of both sides, with reruns, beside those of the first runs.",
        "rates": "How often the intervals of the pass rate and of pass^k hold what is true of all cases of the kind "
        "(.98/.8/.4):",
    }

    def shares(mix: str, change: str, k: int, draws: int) -> dict[str, float]:
        """How often each gate blocks."""
        random = Random(f"{mix} {change} {k}")
        hits = dict.fromkeys(["evalgate", *OTHERS], 0)
        for _ in range(draws):
            pull = simulated.draw(MIXES[mix], CHANGES[change], k, random)
            hits["evalgate"] += simulated.regressed(pull, k)
            for name, gate in OTHERS.items():
                hits[name] += gate(pull, k)
        return {name: count / draws for name, count in hits.items()}

    def adaptive(mix: str, change: str, draws: int) -> tuple[float, float, float]:
        """Two stages beside fixed repeats on the same pull requests: how often each blocks, and the ratio of calls."""
        random = Random(f"{mix} {change} adaptive")
        staged = fixed = calls = 0
        for _ in range(draws):
            pull = simulated.draw(MIXES[mix], CHANGES[change], FIRST + MORE, random)
            fell, asked = simulated.two_stage(pull, FIRST, MORE)
            staged += fell
            calls += asked
            fixed += simulated.regressed(pull, FIRST + MORE)
        whole = 2 * (FIRST + MORE) * simulated.CASES * draws
        return staged / draws, fixed / draws, calls / whole

    def default(mix: str, change: str, k: int, cases: int, draws: int) -> tuple[float, float, float, float]:
        """How often the default verdict blocks, and by what is no hopeless case; its calls; how often `all` blocks."""
        random = Random(f"{mix} {change} {k} {cases} default")
        blocks = unjust = every = 0
        calls = 0.0
        for _ in range(draws):
            rates = simulated.rates_of(mix, cases, random)
            pull = simulated.draw(rates, CHANGES[change], k, random)
            found = simulated.default(pull, k, random)
            blocks += found.blocks
            unjust += found.regressed or (found.confirmed is not None and found.confirmed >= HOPELESS)
            calls += found.calls
            every += simulated.threshold_all(pull, k)
        return blocks / draws, unjust / draws, calls / draws, every / draws

    def criteria(structure: str, change: str, k: int, draws: int) -> tuple[float, float]:
        """How often the regression gate blocks by itself, and the default verdict."""
        random, alone, both = Random(f"{structure} {change} {k}"), 0, 0
        for _ in range(draws):
            pull = simulated.draw(MIXES[TYPICAL], CHANGES[change], k, random)
            found = simulated.default_of_criteria(structure, pull, k, random, draws=1_999)
            alone += found[0]
            both += found[1]
        return alone / draws, both / draws

    def judged(right: float, k: int, *, shared: bool, draws: int) -> float:
        """False blocks where only the judge varies."""
        random, blocks = Random(f"{right} {k} {shared}"), 0
        for _ in range(draws):
            pull = simulated.draw([right] * simulated.CASES, CHANGES["none"], k, random)
            if shared:
                pull.head[:] = [row[:1] * k for row in pull.head]
                pull.base[:] = [row[:1] * k for row in pull.base]
            blocks += simulated.default(pull, k, random).blocks
        return blocks / draws

    def beside_stored(change: str, runs: int, draws: int) -> float:
        """The share of pull requests that are blocked beside one stored base."""
        random, blocks, pulls = Random(f"{change} {runs} stored"), 0, 20
        for _ in range(max(draws // pulls, 1)):
            stored = simulated.draw(MIXES[TYPICAL], CHANGES["none"], runs, random)
            for _ in range(pulls):
                pull = simulated.draw(MIXES[TYPICAL], CHANGES[change], 3, random)
                pull.base[:] = stored.base
                blocks += simulated.regressed(pull, 3, of_base=runs)
        return blocks / (max(draws // pulls, 1) * pulls)

    def unchanged(cases: int, k: int, draws: int) -> float:
        """The most of all mixes that are called unchanged."""
        found = []
        for mix in MIXES:
            random = Random(f"{mix} {cases} {k} unchanged")
            pulls = [
                simulated.draw(simulated.rates_of(mix, cases, random), CHANGES["all -.10"], k, random)
                for _ in range(draws)
            ]
            found.append(sum(simulated.is_called_unchanged(pull, k, at) for at, pull in enumerate(pulls)) / draws)
        return max(found)

    def line(mix: str, k: int, *, confirmed: bool, draws: int) -> tuple[float | None, float]:
        """How often what the power line names is seen, and what it names on average; None where it names nothing."""
        random, seen, told = Random(f"{mix} {k} {confirmed} line"), 0, []
        for _ in range(max(draws // AFTER, 1)):
            rates = simulated.rates_of(mix, simulated.CASES, random)
            drop = simulated.told_drop(simulated.draw(rates, CHANGES["none"], k, random), k, confirmed=confirmed)
            if drop is None:
                continue
            told.append(drop)
            for _ in range(AFTER):
                pull = simulated.draw(rates, simulated.fallen(drop), k, random)
                seen += simulated.sees(pull, k, random) if confirmed else simulated.regressed(pull, k)
        return (seen / len(told) / AFTER, sum(told) / len(told)) if told else (None, 0.0)

    def step(rate: float, drop: float, draws: int) -> float:
        """How often the default verdict sees a drop, where all cases pass equally often."""
        random, change = Random(f"{rate} {drop} step"), simulated.fallen(drop)
        pulls = (simulated.draw([rate] * simulated.CASES, change, 1, random) for _ in range(draws))
        return sum(simulated.sees(pull, 1, random) for pull in pulls) / draws

    def crashed(rates: tuple[float, float], k: int, draws: int) -> tuple[float, float, float]:
        """How often the default verdict blocks, how often head crashed at all, and the calls."""
        random = Random(f"{rates} {k} crashes")
        found = [simulated.crashing(rates, k, random) for _ in range(draws)]
        blocks, any_crash, calls = (sum(column) / draws for column in zip(*found, strict=True))
        return blocks, any_crash, calls

    def held(cases: int, k: int, draws: int) -> tuple[float, float]:
        """How often the intervals of the pass rate and of pass^k hold the truth."""
        random, rate, every = Random(f"{cases} {k} held"), 0, 0
        kinds = MIXES[TYPICAL]
        truth, truth_of_k = sum(kinds) / len(kinds), sum(each**k for each in kinds) / len(kinds)
        for _ in range(draws):
            rates = random.choices(kinds, k=cases)
            found = power.rates([[float(random.random() < each) for _ in range(k)] for each in rates])
            assert found is not None
            assert found.all_of_k_interval is not None
            rate += found.interval.low <= truth <= found.interval.high
            every += found.all_of_k_interval.low <= truth_of_k <= found.all_of_k_interval.high
        return rate / draws, every / draws

    def check(pulls: int) -> None:
        """The short ways say what runs, comparison and decision say as a whole."""
        random = Random("check")
        for number in range(pulls):
            mix = random.choice(list(MIXES.values()))
            pull = simulated.draw(mix, CHANGES[random.choice(list(CHANGES))], 5, random)
            k = (1, 3, 5)[number % 3]
            assert simulated.regressed(pull, k) == simulated.real(pull, k), pull
            pooled = dataclasses.replace(pull, head=[row[:1] for row in pull.head])
            assert simulated.regressed(pooled, 1, of_base=5) == simulated.real(pooled, 1, of_base=5), pull
            assert simulated.two_stage(pull, FIRST, MORE) == simulated.real_two_stage(pull, FIRST, MORE), pull
            decided = simulated.default(pull, k, random)
            assert decided.blocks == simulated.real_default(pull, k, decided), pull

    # --- the page -----------------------------------------------------------------------------------

    def percent(share: float) -> str:
        return f"{share * 100:.1f} %"

    def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    Part: TypeAlias = tuple[dict[str, float], str]
    """The numbers for the last line, and the table."""

    def fixed_part(draws: int) -> Part:
        fixed = {
            (mix, change, k): shares(mix, change, k, draws) for mix in MIXES for change in CHANGES for k in (1, 3, 5)
        }
        numbers = {
            "false_block_max": max(row["evalgate"] for (_, change, _), row in fixed.items() if change == "none"),
            "power_k5": fixed[TYPICAL, "3 broken", 5]["evalgate"],
        }
        rows = [
            [mix, change, str(k), f"**{percent(row['evalgate'])}**", *(percent(row[name]) for name in OTHERS)]
            for (mix, change, k), row in fixed.items()
        ]
        return numbers, table(["Pass probabilities", "Change", "Runs per side", "evalgate", *OTHERS], rows)

    def adaptive_part(draws: int) -> Part:
        staged = {(mix, change): adaptive(mix, change, draws) for mix in MIXES for change in CHANGES}
        numbers = {
            "false_block_max": max(row[0] for (_, change), row in staged.items() if change == "none"),
            "power_two_stage": staged[TYPICAL, "3 broken"][0],
            "two_stage_power_loss": max(
                row[1] - row[0] for (mix, change), row in staged.items() if mix != TOSSES and change == "3 broken"
            ),
            "two_stage_call_ratio": max(row[2] for (mix, _), row in staged.items() if mix != TOSSES),
        }
        rows = [
            [mix, change, percent(ours), percent(other), f"{ratio:.2f}x"]
            for (mix, change), (ours, other, ratio) in staged.items()
        ]
        return numbers, table(["Pass probabilities", "Change", "Adaptive", "Fixed", "Agent calls"], rows)

    def default_part(draws: int) -> Part:
        cells = [(mix, change, 1, simulated.CASES) for mix in DEFAULT_MIXES for change in DEFAULT_CHANGES]
        cells += [(TYPICAL, change, k, simulated.CASES) for k in (2, 3, 5, 8) for change in DEFAULT_CHANGES]
        cells += [(TYPICAL, change, 1, cases) for cases in (5, 100, 500) for change in DEFAULT_CHANGES[:2]]
        # many cases cost most, and depend on chance least
        gates = {cell: default(*cell, draws=draws if cell[3] <= simulated.CASES else draws // 8 + 1) for cell in cells}
        numbers = {
            "default_false_block_max": max(row[1] for (_, change, _, _), row in gates.items() if change == "none"),
            "default_power_3_of_20": gates[TYPICAL, "3 broken", 1, 20][0],
            "default_power_1_of_20": gates[TYPICAL, "1 broken", 1, 20][0],
            "default_call_ratio": max(gates[TYPICAL, change, 1, 20][2] for change in DEFAULT_CHANGES),
            "default_call_ratio_flaky": max(row[2] for (_, change, k, _), row in gates.items() if k == 1),
        }
        header = [
            "Pass probabilities",
            "Cases",
            "Change",
            "Runs per side",
            "Default",
            "3 in 10 or more",
            "Calls",
            "`all`",
        ]
        rows = [
            [
                mix,
                str(cases),
                change,
                str(k),
                f"**{percent(blocks)}**",
                percent(unjust),
                f"{calls:.2f}x",
                percent(every),
            ]
            for (mix, change, k, cases), (blocks, unjust, calls, every) in gates.items()
        ]
        return numbers, table(header, rows)

    def criteria_part(draws: int) -> Part:
        beside = {
            (structure, change, k): criteria(structure, change, k, draws)
            for structure in simulated.STRUCTURES
            for change in ("none", "3 broken")
            for k in (1, 5)
        }
        numbers = {
            "power_k5_criteria5": min(beside[each, "3 broken", 5][0] for each in ("5 equal", "1 and 4 constant")),
            "power_k5_criteria5_noisy": beside["1 and 4 noisy", "3 broken", 5][0],
            # the default verdict blocks cases that hardly ever pass all of five independent criteria, changed or not
            "criteria_false_block_max": max(
                max(row[: 1 if name in ("1 and 4 noisy", "5 independent") else 2])
                for (name, change, _), row in beside.items()
                if change == "none"
            ),
        }
        rows = [[name, change, str(k), *map(percent, row)] for (name, change, k), row in beside.items()]
        return numbers, table(["Criteria", "Change", "Runs per side", "Regression gate", "Default"], rows)

    def judges_part(draws: int) -> Part:
        verdicts = {
            (right, k, shared): judged(right, k, shared=shared, draws=draws)
            for right in (0.9, 0.7)
            for k in (1, 3, 5)
            for shared in (True, False)
        }
        rows = [
            [percent(right), str(k), "one for all runs" if shared else "one a run", percent(share)]
            for (right, k, shared), share in verdicts.items()
        ]
        most = max(share for (_, _, shared), share in verdicts.items() if not shared)
        return {"judge_false_block_max": most}, table(["Right", "Runs per side", "Verdicts", "Blocks"], rows)

    def stored_part(draws: int) -> Part:
        stored = {
            (change, runs): beside_stored(change, runs, draws)
            for change in ("none", "3 broken")
            for runs in (3, 10, 30)
        }
        numbers = {
            "pooled_power_3_30": stored["3 broken", 30],
            "pooled_false_block_max": max(share for (change, _), share in stored.items() if change == "none"),
        }
        rows = [[change, str(runs), percent(share)] for (change, runs), share in stored.items()]
        return numbers, table(["Change", "Runs of the base", "Blocks"], rows)

    def unchanged_part(draws: int) -> Part:
        wrong = {(cases, k): unchanged(cases, k, draws) for cases in (5, 10, 20, 50) for k in (1, 3, 5)}
        rows = [[str(cases), str(k), percent(share)] for (cases, k), share in wrong.items()]
        return {"unchanged_false_max": max(wrong.values())}, table(["Cases", "Runs per side", "Called unchanged"], rows)

    def line_part(draws: int) -> Part:
        kinds = [(mix, k) for mix in DEFAULT_MIXES for k in (1, 3, 5)]
        # forked: a fresh process would import this file as the standard library's module
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
            found = {
                kind: [pool.submit(line, *kind, confirmed=each, draws=draws) for each in (True, False)]
                for kind in kinds
            }
            lines = {kind: [each.result() for each in row] for kind, row in found.items()}
        seen = [share for row in lines.values() for share, _ in row if share is not None]
        rows = [
            [mix, str(k), *(cell for share, drop in row for cell in line_cells(share, drop))]
            for (mix, k), row in lines.items()
        ]
        header = ["Pass probabilities", "Runs per side", "Default: names", "is seen", "`all`: names", "is seen"]
        steps = [[str(rate), *(percent(step(rate, drop, draws)) for drop in STEP_DROPS)] for rate in STEP_RATES]
        told = table(["Pass probability", *(f"{drop * 100:g} points" for drop in STEP_DROPS)], steps)
        return (
            {"power_line_least": min(seen), "power_line_most": max(seen)},
            f"{table(header, rows)}\n\n{WORDS['steps']}\n\n{told}",
        )

    def crashes_part(draws: int) -> Part:
        kinds = [(each, each) for each in (0.01, 0.05, 0.1)] + [(0.2, 0.0)]
        found = {(rates, k): crashed(rates, k, draws) for rates in kinds for k in (1, 5)}
        rows = [
            [*map(percent, reversed(rates)), str(k), percent(any_crash), f"**{percent(blocks)}**", f"{calls:.2f}x"]
            for (rates, k), (blocks, any_crash, calls) in found.items()
        ]
        header = ["Crashes on base", "On head", "Runs per side", "Any run of head crashed", "Default", "Calls"]
        most = max(found[(0.01, 0.01), k][0] for k in (1, 5))
        return {"crash_false_block_max": most}, table(header, rows)

    def rates_part(draws: int) -> Part:
        holds = {(cases, k): held(cases, k, draws) for cases in (10, 20, 50) for k in (1, 3, 5)}
        rows = [[str(cases), str(k), *map(percent, row)] for (cases, k), row in holds.items()]
        return {}, table(["Cases", "Runs", "Pass rate", "pass^k"], rows)

    PARTS = {
        "fixed": fixed_part,
        "adaptive": adaptive_part,
        "default": default_part,
        "criteria": criteria_part,
        "judges": judges_part,
        "stored": stored_part,
        "unchanged": unchanged_part,
        "line": line_part,
        "crashes": crashes_part,
        "rates": rates_part,
    }
    COSTLY = ("criteria", "judges", "unchanged", "line", "crashes")

    def report(names: Sequence[str], draws: int, *, write_page: bool) -> dict[str, float]:
        """Print the tables of these parts; the numbers of the last line."""
        numbers: dict[str, float] = {}
        for name in names:
            least = {"line": AFTER, "crashes": 10}.get(name, 50)
            count = max(draws // 8, least) if name in COSTLY and len(names) == len(PARTS) else draws
            found, told = PARTS[name](count)
            about = WORDS[name].format(cases=simulated.CASES, first=FIRST, more=MORE, both=FIRST + MORE)
            text = f"{about} {count:,} simulated pull requests a row.\n\n{told}"
            print(f"{text}\n", flush=True)
            if write_page:
                write(name, text)
            for key, value in found.items():
                numbers[key] = max(round(value, 4), numbers.get(key, 0.0))
        return numbers

    def line_cells(share: float | None, drop: float) -> tuple[str, str]:
        return ("none", "-") if share is None else (f"{drop * 100:.1f} points", percent(share))

    def write(name: str, text: str) -> None:
        """Between the page's markers of a part."""
        start, end = f"<!-- simulated: {name} -->", "<!-- /simulated -->"
        before, found, rest = PAGE.read_text(encoding="utf-8").partition(start)
        assert found, f"{PAGE} has no {start}"
        _, _, after = rest.partition(end)
        PAGE.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}", encoding="utf-8")

    # --- ten thousand cases -------------------------------------------------------------------------

    def large(cases: int, repeats: int = 5) -> None:
        """Compare two sides with two criteria of pass and fail and a graded one, and say what it took."""
        random = Random("large")
        rates = [random.choice([0.98, 0.8, 0.4]) for _ in range(cases)]
        head, base = (
            graded([[random.random() < rate for _ in range(repeats)] for rate in rates], random) for _ in "hb"
        )
        started = time.perf_counter()
        comparison = compare.compare(
            head,
            base,
            policy=Policy(),
            origin=BaseOrigin(source=BaseSource.RERUN),
            unpaired={},
        )
        verdict = comparison_verdict.decide(head, Policy(), comparison=comparison)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        assert len(comparison.cases) == cases
        assert len(verdict.gates) == 2
        print(json.dumps({"compare_10k_s": round(seconds, 2), "compare_10k_mib": round(peak)}))

    def graded(outcomes: Sequence[Sequence[bool]], random: Random) -> Run:
        plain = simulated.run([[int(each) for each in row] for row in outcomes], len(outcomes[0]))
        suite = plain.suites[0]
        uses = tuple(
            CriterionUse(name=name, threshold=threshold) for name, threshold in zip("mno", (1.0, 1.0, 0.8), strict=True)
        )
        trials = tuple(
            GradedTrial(
                key=trial.key,
                failure=None,
                grades={
                    **trial.grades,
                    "n": Score(value=float(random.random() < 0.9)),
                    "o": Score(value=random.betavariate(8, 2)),
                },
            )
            for trial in plain.trials
        )
        return Run(
            suites=(type(suite)(**{name: getattr(suite, name) for name in suite.__slots__} | {"criteria": uses}),),
            trials=trials,
            transcripts=plain.transcripts,
            repeats=plain.repeats,
        )

    def main(draws: int, *, only: Sequence[str], cases: int, write_page: bool) -> None:
        """Everything, or the parts that are named, and the last line."""
        check(max(6, min(draws // 20, 200)))
        numbers = report(only or list(PARTS), draws, write_page=write_page)
        if not only:
            command = [sys.executable, __file__, "--large", f"--cases={cases}"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
            numbers |= json.loads(done.stdout)
        print(json.dumps(numbers))

    if __name__ == "__main__":
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--draws", type=int, default=4000)
        parser.add_argument("--only", default="", help=f"parts, with commas between them: {', '.join(PARTS)}")
        parser.add_argument("--write", action="store_true", help="put the tables into docs/statistics.md")
        parser.add_argument("--cases", type=int, default=10_000, help="how many are compared at once")
        parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
        arguments = parser.parse_args()
        only = [each for each in arguments.only.split(",") if each]
        if unknown := [each for each in only if each not in PARTS]:
            parser.error(f"--only: there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
        if arguments.large:
            large(arguments.cases)
        else:
            main(arguments.draws, only=only, cases=arguments.cases, write_page=arguments.write)
