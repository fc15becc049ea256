"""How it is computed: functions on Arrow tables, with DuckDB and NumPy; no Spark, no I/O."""
