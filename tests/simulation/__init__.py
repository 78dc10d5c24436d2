"""The whole engine, several nodes of it, under virtual time and random trouble, held to its promises at every commit.

`python -m tests.simulation --help` tells how to run it. `scenario` draws what happens from a seed, `world` lets it
happen, `ledger` watches every commit, and `shrink` finds the shortest history that still shows a broken promise.
"""
