"""A fuzzer for the connection that reads receivers' answers: hostile bytes, and promises that hold whatever they are.

`python -m tests.targets.http.fuzz --seed 1 --cases 100000` looks for answers that break a promise or reach code that no
answer of the corpus reached, and keeps them in `corpus/`. `make test` replays the corpus; `make campaign` runs the
scenario `hostile_answers`.
"""
