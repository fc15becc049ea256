"""SQL: texts that make the same trees as calls of the Python surface."""
