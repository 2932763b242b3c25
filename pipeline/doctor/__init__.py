"""What limits training: measured on the user's own data, disk and model."""
