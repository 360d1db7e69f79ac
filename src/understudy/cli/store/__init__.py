"""`understudy store`: making the tables of a database, moving conversations there and back, and a look whether it can be used."""
