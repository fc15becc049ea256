"""Operators as others build them, for experiments only: nothing in the package uses them."""
