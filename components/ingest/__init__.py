"""Raw images to shuffled, sharded TFRecords."""
