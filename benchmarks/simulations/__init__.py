"""Buffers, joins and tables as the papers describe them, row by row or batch by batch, for comparing and measuring.

Nothing in the package uses them: a query runs by the rules of `semantics` and the programs of `engine`.
"""
