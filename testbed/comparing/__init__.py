"""Comparing variants of an experiment: medians with intervals, paired ratios, and what is noise.

Everything here is worked out from the summaries of a run's variants and repetitions, which ran
interleaved on one standing WAN: first every variant once, then every variant again. What changes on
the machine meanwhile so meets all variants alike, and the runs of one repetition make pairs.
"""
