"""Build the network, run on it, measure it, record it, leave nothing behind."""
