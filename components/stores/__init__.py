"""Files that are not on this machine: object stores, and whatever else Beam can read."""
