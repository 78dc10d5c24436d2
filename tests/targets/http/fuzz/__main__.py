"""Run the fuzzer: `python -m tests.targets.http.fuzz [--seed N] [--cases N] [--keep]`; exit code 1 on a finding."""

import argparse
import sys

from tests.targets.http.fuzz.fuzzer import fuzz, read_corpus, write_corpus


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.targets.http.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--keep", action="store_true", help="write answers that reach something new to the corpus")
    options = parser.parse_args()
    report = fuzz(options.seed, options.cases, list(read_corpus().values()))
    print(f"{report.cases} answers, {report.reused} connections used again, {len(report.reached)} steps reached")
    for answer, broken in report.broken.items():
        print(f"\n{answer!r}\n{broken}")
    if options.keep:
        write_corpus([*report.broken, *report.kept])
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
