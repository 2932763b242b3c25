"""Where images come from: references to files, and the reading of one."""
