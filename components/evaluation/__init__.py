"""A trained model and stored records → what it is worth."""
