"""Tools of the repository; nothing of the package uses them."""
