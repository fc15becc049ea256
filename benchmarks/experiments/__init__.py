"""Experiments with the kernels alone: what others measured, measured here, with the ratios side by side."""
