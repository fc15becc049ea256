"""How it runs on Spark: the micro-batch loop, partition-group tasks, state runs, manifests."""
