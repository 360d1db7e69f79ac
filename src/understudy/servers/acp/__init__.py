"""The Agent Client Protocol of editors: translates `engine/activity` into sessions, prompts, questions and file changes."""
