"""The names of an exported model's signatures, their inputs and their outputs."""

EXTRA_FOLDER = "assets.extra"  # of a SavedModel's folder, for what TensorFlow does not read
MODEL_FILE = "saved_model.pb"  # whoever serves models takes a folder that has it for whole

# Signatures.
SERVE_IMAGES = "serving_default"  # image files → what a caller wants to know
SERVE_EXAMPLES = "serving_examples"  # records → what evaluation measures
TRANSFORM_FEATURES = "transform_features"  # records → the truth, which evaluation compares with
SERVE_PIXELS = "serving_pixels"  # views, decoded by the caller → the outputs of SERVE_IMAGES
EMBED_EXAMPLES = "embed_examples"  # records → what a classifier's last layer sees of them

# Their inputs, string [batch].
# JPEG, PNG or still WebP files; WAV files, if sounds were drawn; where ingest stored other
# values than 8-bit gray or RGB, `.npy` files, and PNGs of 16 bits.
IMAGE_BYTES = "image_bytes"
EXAMPLES = "examples"  # serialized tf.train.Example, with the columns that ingest writes
# Of SERVE_PIXELS: uint8 (float32 if ingest stored other values than uint8)
# [batch, height, width, channels], at the model's input size, upright, RGB or gray.
PIXELS = "pixels"

# What is saved beside them, for exporters to other formats: views as in `PIXELS` → the network's
# final outputs, float32, and nothing that is text.
PREDICT_VIEWS = "predict_views"

# Of SERVE_IMAGES, whatever the task.
CLASSES = "classes"  # string [batch, classes], the names in the order of ids, the same in every row
VALID = "valid"  # bool [batch]: whether the file could be decoded
ERROR = "error"  # string [batch]: why not, as ingest names it; empty of a valid row

# Of a classifier.
PROBABILITIES = "probabilities"  # float32 [batch, classes], in the order of the vocabulary
# Of SERVE_IMAGES, string [batch]: the likeliest class. Of TRANSFORM_FEATURES, int64 [batch]: the
# true one's id, or -1.
LABEL = "label"

# Of EMBED_EXAMPLES, float32 [batch, any].
EMBEDDING = "embedding"

# Of a model for tags. Of SERVE_IMAGES, string [batch, tags]: the name of each tag that is likelier
# than `LIKELY`, else "". Of TRANSFORM_FEATURES, float32 [batch, tags]: 1 for those that are true.
TAGS = "tags"
LIKELY = 0.5

# Of a model for values, float32 [batch]: the predicted one; of TRANSFORM_FEATURES, the true one.
VALUE = "value"

# Of a model for masks.
# uint8 [batch, height, width], at the model's input size. Of SERVE_IMAGES and SERVE_EXAMPLES: each
# pixel's likeliest class. Of TRANSFORM_FEATURES: the true one.
MASK = "mask"
# Of SERVE_IMAGES, string [batch]: the same as a gray PNG. A name that ends in `_bytes` tells
# TensorFlow Serving's REST interface that it is not text.
MASK_BYTES = "mask_bytes"
# Float32 [batch]: the mean, over the pixels, of the likeliest class's probability.
CONFIDENCE = "confidence"

# Of a model for boxes. Of SERVE_IMAGES, the objects that were found, likeliest first; `COUNT` says
# how many, the rest is padding: zeros and empty names.
BOXES = "boxes"  # float32 [batch, most, 4]: top, left, bottom, right as shares of the image's sides
SCORES = "scores"  # float32 [batch, most]
LABELS = "labels"  # string [batch, most], the names of their classes
COUNT = "count"  # int32 [batch]
# Of SERVE_EXAMPLES and TRANSFORM_FEATURES, float32 [batch, any, 6]: a box as above, but of the
# view, with its class's id, -1 if there is none; and its score or, of a true one, 1 if it is not
# to be counted.
OBJECTS = "objects"
