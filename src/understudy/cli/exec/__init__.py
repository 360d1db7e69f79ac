"""`understudy exec` and `understudy review`: one task from the command line, for a person or as lines of JSON."""
