"""REST: `routes.py` is the table from which requests are served and the OpenAPI document is made. Handlers read (`reading.py`), act
(`acting.py`) and manage; `shapes.py` has their answers.
"""
