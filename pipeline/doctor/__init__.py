"""What limits training: measured on a person's own data, disk and model."""
