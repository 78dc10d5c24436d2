"""Upper limits: hand-written loops that do one part of Hourbell's work and nothing else."""
