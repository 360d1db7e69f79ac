"""Moving all conversations from one kind of store into another: every digest and seal is followed on the way."""
