"""TensorFlow Serving's two interfaces in Python, by its own protocol buffers and written rules.

Of REST: https://www.tensorflow.org/tfx/serving/api_rest, and `util/json_tensor.cc` where that is
not exact. A server itself cannot be installed from a package index.
"""

import base64
import contextlib
import http.server
import json
import threading
from concurrent import futures

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class StandIn:
    """Answers requests by a SavedModel's signatures."""

    def __init__(self, folder):
        self._loaded = tf.saved_model.load(folder)

    def _run(self, signature_name, inputs):
        signature = self._loaded.signatures[signature_name or "serving_default"]
        specs = signature.structured_input_signature[1]
        assert set(inputs) == set(specs), "a request names exactly the signature's inputs"
        tensors = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
        outputs = {name: value.numpy() for name, value in signature(**tensors).items()}
        # What batches requests, and the row format, cut all outputs along the first dimension.
        (count,) = {len(value) for value in inputs.values()}
        for name, value in outputs.items():
            assert value.ndim and len(value) == count, f"{name} has no dimension of the batch"
        return outputs

    def predict(self, request):
        """A PredictRequest to its PredictResponse."""
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        outputs = self._run(request.model_spec.signature_name, inputs)
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(request.model_spec)
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response

    def post(self, text):
        """The JSON of a request, in rows or columns, to that of the answer."""
        body = json.loads(text)
        name = body.get("signature_name", "serving_default")
        (only,) = self._loaded.signatures[name].structured_input_signature[1]
        if "instances" in body:
            rows = [_decode(row) for row in body["instances"]]
            if isinstance(rows[0], dict):
                rows = [row[only] for row in rows]
            outputs = self._run(name, {only: rows})
            lists = {key: _encode(key, value) for key, value in outputs.items()}
            answers = [{key: each[i] for key, each in lists.items()} for i in range(len(rows))]
            if len(lists) == 1:
                answers = [row for (row,) in (each.values() for each in answers)]
            return json.dumps({"predictions": answers}, allow_nan=False)
        inputs = _decode(body["inputs"])
        outputs = self._run(name, inputs if isinstance(inputs, dict) else {only: inputs})
        lists = {key: _encode(key, value) for key, value in outputs.items()}
        return json.dumps({"outputs": lists}, allow_nan=False)


def _decode(value):
    """JSON with `{"b64": …}` for bytes."""
    if isinstance(value, dict):
        if value.keys() == {"b64"}:
            return base64.b64decode(value["b64"])
        return {key: _decode(each) for key, each in value.items()}
    return [_decode(each) for each in value] if isinstance(value, list) else value


def _encode(name, value):
    """A tensor as JSON: strings are text, unless the output's name ends in `_bytes`."""
    if value.dtype != object:
        return value.tolist()

    def encode(each):
        if isinstance(each, list):
            return [encode(inner) for inner in each]
        is_bytes = name.endswith("_bytes")
        return {"b64": base64.b64encode(each).decode()} if is_bytes else each.decode("utf-8")

    return encode(np.asarray(value).tolist())


@contextlib.contextmanager
def serve(stand_in):
    """Listens on two free ports of this machine: yields that of REST and that of gRPC."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            answer = stand_in.post(self.rfile.read(length)).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            return stand_in.predict(request)

    rest = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    rpc = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Servicer(), rpc)
    port = rpc.add_insecure_port("localhost:0")
    rpc.start()
    try:
        yield rest.server_address[1], port
    finally:
        rpc.stop(None).wait()
        rest.shutdown()
        rest.server_close()
