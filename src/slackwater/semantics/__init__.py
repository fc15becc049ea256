"""What a query means: window ids, bounds, progress, lateness, cost. Numbers only; no I/O."""
