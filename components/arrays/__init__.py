"""HDF5, NumPy and Zarr files: arrays of images, and the rows of one."""
