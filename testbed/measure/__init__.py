"""What the network really did: round trips, bytes of every direction, packets, predictions.

Each module keeps its arithmetic pure, on plain data, and its contact with the kernel in a thin
shell, so that the arithmetic can be tested against hand calculation.
"""
