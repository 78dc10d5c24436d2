"""The pure rules: no I/O, no clock, no randomness, no logging. Time is an argument."""
