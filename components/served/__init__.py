"""Any image file as a served model sees it: decoded as ingest decodes it, in TensorFlow ops."""
