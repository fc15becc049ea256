"""What a query says: frozen, validated values; no Spark, no I/O."""
