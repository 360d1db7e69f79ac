"""Today's agents as their users start them: one process for a whole task, and as a server for an editor."""
