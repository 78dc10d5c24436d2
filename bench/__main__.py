"""Run the named benchmarks, or all of them: print their tables, and keep the figures as JSON in `bench/results/`."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import (
    alerts,
    drain,
    growth,
    idle,
    imports,
    lateness,
    lists,
    page,
    planning,
    schedule,
    start,
    timeline,
    webhooks,
)
from bench.machine import describe_run
from bench.report import Benchmark
from bench.sizes import applied, parse_asked

BENCHMARKS: Mapping[str, Benchmark] = {
    "alerts": alerts.BENCHMARK,
    "drain": drain.BENCHMARK,
    "growth": growth.BENCHMARK,
    "idle": idle.BENCHMARK,
    "imports": imports.BENCHMARK,
    "lateness": lateness.BENCHMARK,
    "lists": lists.BENCHMARK,
    "page": page.BENCHMARK,
    "planning": planning.BENCHMARK,
    "schedule": schedule.BENCHMARK,
    "start": start.BENCHMARK,
    "timeline": timeline.BENCHMARK,
    "webhooks": webhooks.BENCHMARK,
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    for name, asked in _read_arguments():
        with applied(asked):
            _run(name, BENCHMARKS[name], asked)


def _read_arguments() -> list[tuple[str, dict[str, str]]]:
    listing = "\n".join(f"  {name:10} {benchmark.about}" for name, benchmark in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Hourbell beside its peers.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    help_text = "which to run, with sizes as in drain:runs=2000:rounds=1; all of them if none is named"
    parser.add_argument("names", nargs="*", metavar="name", help=help_text)
    known = {name: benchmark.sizes for name, benchmark in BENCHMARKS.items()}
    try:
        return [parse_asked(text, known) for text in parser.parse_args().names or BENCHMARKS]
    except ValueError as error:
        parser.error(str(error))


def _run(name: str, benchmark: Benchmark, asked: dict[str, str]) -> None:
    where = describe_run(benchmark.packages)
    print(f"# {name}: {benchmark.about}\n\n{_headline(where)}\n", flush=True)
    report = benchmark.run()
    print(report.render(), end="\n\n")
    RESULTS.mkdir(exist_ok=True)
    found = {"benchmark": name, "asked": asked, **where, **report.figures()}
    path = RESULTS / (f"{name}.asked.json" if asked else f"{name}.json")  # a trial does not replace the real figures
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _headline(where: dict[str, Any]) -> str:
    packages = ", ".join(f"{package} {version or '(missing)'}" for package, version in where["packages"].items())
    return f"{where['python']}; {packages}; {where['machine']['cpu']}, {where['machine']['cores']} cores"


if __name__ == "__main__":
    main()
