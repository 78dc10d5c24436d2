"""The rules behind `hourbell doctor`: they find problems in a database from facts that a store reads.

`facts` holds the facts; `runs`, `instants`, `jobs` and `surroundings` turn them into faults; `catalog` gives each kind
of fault its severity and its repair, `repairs` writes the SQL of a repair, and `findings` groups faults of one kind.

A false alarm is the worst mistake of a doctor: if the tables cannot prove a fault, none is reported.
"""
