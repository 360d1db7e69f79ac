"""Plan mode: the words that ask for a plan, and the review of a plan."""
