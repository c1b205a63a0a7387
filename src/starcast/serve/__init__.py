"""The HTTP service: questions of programs and of a page, answered by one model."""
