"""A transform graph's inputs and outputs: names that analysis, training and serving agree on.

A transform graph is what tf.Transform saves. It reads pixels and class names, and returns
the normalised pixels and class ids that the model is trained on. Columns named in
`transform.columns` are further inputs, under their feature keys, each [batch].

The image output is a function of the image alone and the label output one of the label and the
columns, one image at a time, so that it can be served without a label.
"""

# uint8 (or float32, of data sets of another type) [batch, height, width, channels], in the model's
# input size.
IMAGE_INPUT = "image"
LABEL_INPUT = "label"  # string [batch], the class's name
IMAGE_OUTPUT = "image"  # float32 [batch, height, width, channels], normalised
LABEL_OUTPUT = "label"  # int64 [batch], the class's line in the vocabulary; -1 when it has none
LABEL_VOCABULARY = "label"  # tf.Transform's name of the vocabulary: one class name a line
# What the image input's numbers mean. Ingest stores upright sRGB whatever the source was, and no
# view changes that; a server's caller has to send the same.
CHANNEL_ORDER = {1: "gray", 3: "RGB"}  # by the number of channels
COLOR_SPACE = "sRGB"
AS_STORED = "as stored"  # of other numbers of channels and other types than uint8
# The file beside the graph that tells people what was analysed and found.
ANALYSIS = "analysis.json"
PIXEL_SUMS = ".pixel_sums"  # Hidden, so that who reads a graph in a store does not fetch it.
