"""What training would see, on one sheet."""
