"""The rules behind `hourbell doctor`: they find problems in a database from facts that a store reads.

`facts` holds the facts; `runs`, `instants`, `jobs` and `environment` turn them into defects; `catalog` gives each kind
of defect its severity and its repair, `repairs` writes the SQL of a repair, and `findings` groups defects of one kind.

A false alarm is the worst mistake of a doctor: if the tables cannot prove a defect, none is reported.
"""
