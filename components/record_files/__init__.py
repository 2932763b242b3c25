"""Other people's records: TFRecords, TFDS, Parquet and Arrow."""
