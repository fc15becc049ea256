"""Joins as others do them, for experiments only: nothing in the package uses them."""
