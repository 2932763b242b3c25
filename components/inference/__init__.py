"""Predictions of an exported model without a server: by hand, in bulk, in other formats."""
