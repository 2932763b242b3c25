"""Writers of image data sets, each run by the Python of its own environment (`write.py`)."""
