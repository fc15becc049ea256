"""What users hold: streams, windows, writers, the command line."""
