"""REST: `routes.py` is the table by which requests are served and of which the OpenAPI document is made; handlers read
(`reading.py`), act (`acting.py`) and manage; `shapes.py` is what they answer with.
"""
