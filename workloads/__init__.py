"""What runs on islands: collectives and training.

This package imports nothing but the standard library, numpy and torch, so that a worker can be
copied to an island, or to any machine, and started there by `torchrun` with nothing else at hand.
"""
