"""The page in a browser: its files, and how a browser logs in. What it shows comes from REST."""
