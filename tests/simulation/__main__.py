"""Simulate seeds, many or one.

python -m tests.simulation --seeds 10000     # as many processes as there are processors
python -m tests.simulation --seed 4711       # one, with its history
"""

import argparse
import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.simulation.batch import Result, results_of
from tests.simulation.scenario import CROWDED_SLOTS, Scenario, scenario_of
from tests.simulation.shrink import shrink
from tests.simulation.world import SimulationReport, simulate

HASH_SEED = "0"  # the order of a set of names is part of a history


def main() -> int:
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if arguments.seed is not None:
        return _show(simulate(scenario_of(arguments.seed)))
    return _many(range(arguments.first, arguments.first + arguments.seeds), arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its whole history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--brief", action="store_true", help="leave out the history of a broken promise")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def _many(seeds: range, arguments: argparse.Namespace) -> int:
    """Every seed; the first that breaks a promise ends it, and is shown as short as it can be made."""
    started, results, broken = time.monotonic(), [], None
    with closing(results_of(seeds, arguments.processes)) as found:
        for result in found:
            results.append(result)
            if result.broken is not None:
                broken = result.seed
                break
            if len(results) % 500 == 0:
                print(f"{len(results)} of {len(seeds)}", file=sys.stderr)
    figures = _figures(results, time.monotonic() - started)
    print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    if broken is None:
        return 0
    if arguments.brief:
        print(f"seed {broken} breaks a promise")
        return 1
    return _show(simulate(scenario_of(broken)))


def _figures(results: list[Result], seconds: float) -> dict[str, object]:
    return {
        "seeds": len(results),
        "violations": sum(result.broken is not None for result in results),
        "runs": sum(result.runs for result in results),
        "effects": sum(result.effects for result in results),
        "ms_of_cpu_per_seed": round(1_000 * sum(result.seconds for result in results) / max(1, len(results))),
        "seconds": round(seconds),
    }


def _show(report: SimulationReport) -> int:
    """A history, of a broken promise the shortest."""
    if report.broken is not None:
        print(f"\nseed {report.scenario.seed}: {report.broken}\n\nthe shortest history that shows it:\n")
        report = shrink(report, simulate)
    _describe(report.scenario)
    print("\n" + "\n".join(report.history))
    print(f"\n{report.broken or 'every promise held'}")
    if report.broken is not None:
        print(f"again: python -m tests.simulation --seed {report.scenario.seed}")
    return int(report.broken is not None)


def _describe(scenario: Scenario) -> None:
    away = f"{scenario.latency} s away from the database"
    slots = CROWDED_SLOTS if scenario.crowd else scenario.slots
    limits = f"{slots} slots, {scenario.threads} threads and {scenario.connections} connections"
    print(f"{scenario.moment:%Y-%m-%d %H:%M:%S}, {scenario.nodes} nodes with {limits}, {away}")
    for job in scenario.all_jobs:
        print(f"  {job}")
    for act in scenario.acts:
        print(f"  {act}")


if __name__ == "__main__":
    sys.exit(main())
