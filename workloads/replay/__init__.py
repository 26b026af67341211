"""Replaying the traffic of a large model without its compute: sleeps and messages from a table.

`layers` reads the table, `transformer` computes one from a model's published shape, `payload` has
numbers whose mean is known, and `workload` goes through the rounds.
"""
