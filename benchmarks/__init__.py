"""Benchmarks, run by ``python -m benchmarks windows``, ``growth`` or ``joins``. They measure; they assert only that answers are right."""
