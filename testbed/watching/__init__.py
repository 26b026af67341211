"""Watching a run, live or afterwards, by its record alone.

Whoever watches reads the files that the run appends to and nothing else: no port into the run, no
process asked, so watching cannot change what is measured, and a finished run is watched alike.
"""
