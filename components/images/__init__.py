"""One image in, one image out: check, decode, turn upright, resize, encode. No TensorFlow."""
