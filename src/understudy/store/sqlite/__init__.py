"""The log on SQLite: one file with a write-ahead log, `synchronous=FULL`, one writer thread that commits together what waits
together, any number of readers.

`event_log.py` is the store, `open_files.py` its tables, `writer.py` and `writing.py` the way in, `queries.py` the way
out. `claims.py` and `hints.py` are about other processes; `second_names.py`, `still_there.py` and `wal.py` keep
acknowledged records when somebody removes or cuts the files.
"""
