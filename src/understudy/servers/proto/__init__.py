"""`proto`: submissions as lines in, events as lines out."""
