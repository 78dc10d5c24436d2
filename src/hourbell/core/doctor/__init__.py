"""What may be wrong with a database, decided from facts: the rules behind `hourbell doctor`.

`facts` is what a store reads; `runs`, `instants`, `jobs` and `surroundings` turn it into faults; `catalog` says of each
kind how grave it is and what to do, `repairs` writes the SQL for that, and `findings` sums up faults of one kind.

A false alarm is the worst fault of a doctor: where the tables cannot decide, nothing is said.
"""
