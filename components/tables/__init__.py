"""Tables of images: a row for each, which names or holds it."""
