"""Names and options of the commands. Each names the module in `cli` that does the work."""
