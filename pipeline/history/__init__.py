"""What earlier runs in an output folder did, and why each step was made again."""
