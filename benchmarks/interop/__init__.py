"""Other frameworks read a data set: each in an environment of its own."""
