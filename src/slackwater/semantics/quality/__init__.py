"""Quality targets: how large a slack must be so that results are as good as asked for, and no larger."""
