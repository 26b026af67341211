"""Experiments: what to train how on which network, from a file to schedules, faults and records."""
