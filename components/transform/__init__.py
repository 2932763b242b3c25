"""Records to a transform graph over uint8 pixel batches."""
