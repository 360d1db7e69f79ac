"""A scripted model over HTTP, fast enough not to be what is measured."""
