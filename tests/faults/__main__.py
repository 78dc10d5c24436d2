"""The campaign of real faults: `python -m tests.faults [--seed N] [--scale X] [--only a,b] [--json FILE]`.

Every scenario in turn, on a PostgreSQL of its own and on SQLite files. The exit code is 1 if a promise does not hold.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import apsw
import asyncpg

from tests.faults.campaign import SCENARIOS, chosen, run_one, table
from tests.faults.verdict import Backend, Verdict
from tests.server import remove_server, reserve_folder, server_url


def main() -> int:
    options = _options()
    unknown = set(options.only) - SCENARIOS.keys()
    if unknown:
        print(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    reserve_folder()
    try:
        verdicts = asyncio.run(_run(options))
        machine = asyncio.run(_machine())
    finally:
        remove_server()
    print(table(verdicts))
    holds = all(verdict.holds for verdict in verdicts)
    seconds = sum(verdict.seconds for verdict in verdicts)
    reported = "every promise holds" if holds else "NOT every promise holds"
    print(f"\nseed {options.seed}, scale {options.scale:g}, {seconds:.0f} s: {reported}")
    if options.json:
        facts = {"seed": options.seed, "scale": options.scale, "holds": holds, "seconds": round(seconds), **machine}
        text = json.dumps(
            facts | {"verdicts": [verdict.as_json() for verdict in verdicts]}, indent=1, ensure_ascii=False
        )
        Path(options.json).write_text(text + "\n")
    return 0 if holds else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Real faults, one scenario after another."
    )
    parser.add_argument("--seed", type=int, default=1, help="the random seed of every scenario")
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 is the whole size")
    parser.add_argument("--only", type=lambda text: [name for name in text.split(",") if name], default=[])
    parser.add_argument("--backend", choices=get_args(Backend))
    parser.add_argument("--json", metavar="FILE", help="where to write the verdicts as JSON")
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> list[Verdict]:
    verdicts = []
    for name, backend in chosen(options.only, options.backend):
        print(f"{name} on {backend} …", end=" ", file=sys.stderr, flush=True)
        verdict = await run_one(name, backend, seed=options.seed, scale=options.scale)
        print(f"{'holds' if verdict.holds else 'BROKEN'}, {verdict.seconds:.0f} s", file=sys.stderr)
        for figure, value in verdict.figures.items():
            print(f"    {figure}: {value}", file=sys.stderr)
        verdicts.append(verdict)
    return verdicts


async def _machine() -> dict[str, Any]:
    """Describe the machine that the figures were taken on."""
    connection = await asyncpg.connect(server_url())
    postgres = await connection.fetchval("show server_version")
    await connection.close()
    versions = {
        "hourbell": version("hourbell"),
        "python": platform.python_version(),
        "postgres": postgres,
        "sqlite": apsw.sqlite_lib_version(),
        "asyncpg": version("asyncpg"),
        "apsw": version("apsw"),
    }
    return {"versions": versions, "machine": {"system": platform.system(), "cores": os.cpu_count()}}


if __name__ == "__main__":
    sys.exit(main())
