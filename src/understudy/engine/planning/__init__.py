"""Plan mode: in which words a plan is asked for and how it is reviewed."""
