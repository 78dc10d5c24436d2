"""Benchmarks beside peers: `python -m bench [name …]`, or `make bench ONLY=name`.

A benchmark may be told its sizes, which its module names: `python -m bench drain:runs=2000:rounds=1`. Such a trial
keeps its figures in `bench/results/<name>.asked.json`.
"""
