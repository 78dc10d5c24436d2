"""What can be reached at all: hand-written loops that do one part of our work and nothing else."""
