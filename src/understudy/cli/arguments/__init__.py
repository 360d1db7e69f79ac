"""The commands' names and options. Each names the module, within `cli`, that does the work."""
