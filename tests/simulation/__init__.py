"""The whole engine with several nodes under virtual time and random faults, checked at every commit.

`python -m tests.simulation --help` tells how to run it. `scenario` draws what happens from a seed, `world` lets it
happen, `ledger` watches every commit, and `shrink` finds the shortest history that still shows a broken promise.
"""
