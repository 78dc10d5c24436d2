"""Run the named benchmarks, or all of them: print their tables, and keep the figures as JSON in `bench/results/`."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import idle, imports, lists, schedule, start, webhooks
from bench.machine import describe_run
from bench.report import Benchmark

BENCHMARKS: Mapping[str, Benchmark] = {
    "idle": idle.BENCHMARK,
    "imports": imports.BENCHMARK,
    "lists": lists.BENCHMARK,
    "schedule": schedule.BENCHMARK,
    "start": start.BENCHMARK,
    "webhooks": webhooks.BENCHMARK,
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    names = _read_arguments()
    for name in names:
        _run(name, BENCHMARKS[name])


def _read_arguments() -> list[str]:
    listing = "\n".join(f"  {name:10} {benchmark.about}" for name, benchmark in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Hourbell beside its peers.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all of them if none is named")
    names: list[str] = parser.parse_args().names
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}\n{listing}")
    return names or list(BENCHMARKS)


def _run(name: str, benchmark: Benchmark) -> None:
    where = describe_run(benchmark.packages)
    print(f"# {name}: {benchmark.about}\n\n{_headline(where)}\n", flush=True)
    report = benchmark.run()
    print(report.render(), end="\n\n")
    RESULTS.mkdir(exist_ok=True)
    figures = json.dumps({"benchmark": name, **where, **report.figures()}, indent=2, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(figures + "\n", encoding="utf-8")


def _headline(where: dict[str, Any]) -> str:
    packages = ", ".join(f"{package} {version or '(missing)'}" for package, version in where["packages"].items())
    return f"{where['python']}; {packages}; {where['machine']['cpu']}, {where['machine']['cores']} cores"


if __name__ == "__main__":
    main()
