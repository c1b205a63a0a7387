"""More ratings than one process should hold, and more than one process at work on them."""
