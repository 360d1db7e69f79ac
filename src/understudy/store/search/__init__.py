"""Finding what was said and run: an index beside the log, kept in step with it, and made anew where it is missing."""
