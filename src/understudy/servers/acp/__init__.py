"""The Agent Client Protocol of editors: sessions, prompts, questions and file changes, as a table over `engine/activity`."""
