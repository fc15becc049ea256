"""Contracts: whether every state of a query is freed and every result comes, by the form of its punctuation."""
