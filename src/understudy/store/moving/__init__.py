"""Moves all conversations from one kind of store into another, and checks every digest and seal on the way."""
