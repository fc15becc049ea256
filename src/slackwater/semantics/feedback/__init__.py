"""Feedback: what a consumer will ignore. The value, its text, its records; how it goes through operators is in `operators`."""
