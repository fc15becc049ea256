"""Quality targets: sums under error targets, then joins under recall targets; both without Spark, in stream time."""

from __future__ import annotations

import argparse

from benchmarks import quality_aggregates, quality_joins
from benchmarks.quality_data import GENERATORS as AGGREGATES
from benchmarks.quality_join_data import GENERATORS as JOINS


def main(options: argparse.Namespace | None = None) -> None:
    """Run both parts on seed 1, which no constant was chosen on."""
    quick = bool(options is not None and options.quick)
    quality_aggregates.main(
        argparse.Namespace(
            quick=quick,
            data=",".join(AGGREGATES),
            widths="1.0" if quick else ",".join(map(str, quality_aggregates.WIDTHS)),
            errors="0.01" if quick else ",".join(map(str, quality_aggregates.ERRORS)),
            seed=1,
            out="benchmarks/results/quality_aggregates.json",
        )
    )
    quality_joins.main(
        argparse.Namespace(
            quick=quick, data=",".join(JOINS), seed=1, out="benchmarks/results/quality_joins.json"
        )
    )


if __name__ == "__main__":
    main()
