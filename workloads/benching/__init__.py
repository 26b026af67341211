"""Measuring collectives: one worker an island, each size repeated, every result checked."""
