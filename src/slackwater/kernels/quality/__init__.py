"""Kernels of quality targets: many rows, streams or candidates of slack at once."""
