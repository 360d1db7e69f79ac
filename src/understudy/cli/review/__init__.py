"""`understudy review`: the changes of a repository, looked at by a model that may only read."""
