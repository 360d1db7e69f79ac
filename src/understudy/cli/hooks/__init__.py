"""`understudy hooks`: which hooks there are, whether they count, what one says, and trusting one."""
