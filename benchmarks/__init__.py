"""Benchmarks, run by ``python -m benchmarks windows`` or ``growth``. They measure; they assert only that answers are right."""
