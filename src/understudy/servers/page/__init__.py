"""The page in a browser: its files, and how a browser logs in. REST supplies what it shows."""
