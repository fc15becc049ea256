"""The report: what a query did, as one HTML file that needs nothing else."""

from slackwater.surface.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
