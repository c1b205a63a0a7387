"""The page in Chromium."""
