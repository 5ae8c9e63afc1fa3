"""BERT-type weights to an ONNX graph that includes pooling and normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backstory.embeddings.local.bert_model import BertModel, Weights
from backstory.errors import ModelFileError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

GRAPH_VERSION = 1
INPUT_IDS = "input_ids"
ATTENTION_MASK = "attention_mask"

_OPSET = 20
_IR_VERSION = 9
_LARGEST_FILE = 2_000_000_000
_MASKED = np.float32(np.finfo(np.float32).min / 2)


def build_graph(model: BertModel) -> bytes:
    """Build the float32 graph of a model.

    The inputs are ``input_ids`` and ``attention_mask``, int64 of shape ``(texts, tokens)``, padded on the right.
    The output is float32 unit rows of shape ``(texts, hidden_size)``.

    Args:
        model: Architecture and weights; the weights are read here.

    Returns:
        The serialized ONNX file.

    Raises:
        ModelFileError: A tensor is absent or of the wrong shape, or the weights exceed the format's 2 GB.
    """
    import onnx
    from onnx import TensorProto, helper

    weights = model.read_weights()
    size = sum(tensor.nbytes for tensor in weights.values())
    if size > _LARGEST_FILE:
        raise ModelFileError(
            f"{model.name} has {size / 1e9:.1f} GB of float32 weights; at most 2 GB can be run"
        )
    graph = _GraphBuilder(model, weights)
    hidden = graph.embed_tokens()
    attention_bias = graph.mask_padding()
    for layer in range(model.layers):
        hidden = graph.transform(hidden, attention_bias, layer)
    pooled = graph.take_first(hidden) if model.pooling == "cls" else graph.average(hidden)
    output = graph.apply("LpNormalization", pooled, axis=-1, p=2)
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            model.name,
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
                for name in (INPUT_IDS, ATTENTION_MASK)
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["texts", model.hidden_size])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


class _GraphBuilder:
    """Collects the nodes and constants of one graph. Every method returns the name of its output."""

    def __init__(self, model: BertModel, weights: Weights) -> None:
        self._model = model
        self._weights = weights
        self._head_size = model.hidden_size // model.heads
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def embed_tokens(self) -> str:
        token_count = self.apply(
            "Slice", self.apply("Shape", INPUT_IDS), self._integers([1]), self._integers([2])
        )
        positions = self.apply(
            "Slice",
            self._constant(self._weight("embeddings.position_embeddings.weight")),
            self._integers([0]),
            token_count,
            self._integers([0]),
        )
        words = self.apply(
            "Gather", self._constant(self._weight("embeddings.word_embeddings.weight")), INPUT_IDS
        )
        first_type = self._constant(self._weight("embeddings.token_type_embeddings.weight")[0])
        placed = self.apply("Add", words, self.apply("Add", positions, first_type))
        return self._normalize(placed, "embeddings.LayerNorm")

    def mask_padding(self) -> str:
        from onnx import TensorProto

        mask = self.apply("Cast", ATTENTION_MASK, to=TensorProto.FLOAT)
        padding = self.apply("Sub", self._constant(np.float32(1)), mask)
        spread = self.apply("Unsqueeze", padding, self._integers([1, 2]))
        return self.apply("Mul", spread, self._constant(_MASKED))

    def transform(self, hidden: str, attention_bias: str, layer: int) -> str:
        name = f"encoder.layer.{layer}"
        attended = self._attend(hidden, attention_bias, f"{name}.attention.self")
        projected = self._project(attended, f"{name}.attention.output.dense")
        hidden = self._normalize(self.apply("Add", projected, hidden), f"{name}.attention.output.LayerNorm")
        widened = self.apply("Gelu", self._project(hidden, f"{name}.intermediate.dense"))
        narrowed = self._project(widened, f"{name}.output.dense")
        return self._normalize(self.apply("Add", narrowed, hidden), f"{name}.output.LayerNorm")

    def take_first(self, hidden: str) -> str:
        return self.apply("Gather", hidden, self._constant(np.int64(0)), axis=1)

    def average(self, hidden: str) -> str:
        from onnx import TensorProto

        mask = self.apply("Cast", ATTENTION_MASK, to=TensorProto.FLOAT)
        column = self.apply("Unsqueeze", mask, self._integers([2]))
        tokens = self._integers([1])
        total = self.apply("ReduceSum", self.apply("Mul", hidden, column), tokens, keepdims=0)
        return self.apply("Div", total, self.apply("ReduceSum", column, tokens, keepdims=0))

    def _attend(self, hidden: str, attention_bias: str, name: str) -> str:
        query = self._split_heads(self._project(hidden, f"{name}.query", scale=self._head_size**-0.5))
        key = self._split_heads(self._project(hidden, f"{name}.key"), order=(0, 2, 3, 1))
        value = self._split_heads(self._project(hidden, f"{name}.value"))
        scores = self.apply("Add", self.apply("MatMul", query, key), attention_bias)
        mixed = self.apply("MatMul", self.apply("Softmax", scores, axis=-1), value)
        joined = self.apply("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.apply("Reshape", joined, self._integers([0, 0, self._model.hidden_size]))

    def _split_heads(self, projected: str, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        heads = self._integers([0, 0, self._model.heads, self._head_size])
        return self.apply("Transpose", self.apply("Reshape", projected, heads), perm=order)

    def _project(self, hidden: str, name: str, scale: float = 1.0) -> str:
        matrix = self._constant(np.ascontiguousarray(self._weight(f"{name}.weight").T) * np.float32(scale))
        bias = self._constant(self._weight(f"{name}.bias") * np.float32(scale))
        return self.apply("Add", self.apply("MatMul", hidden, matrix), bias)

    def _normalize(self, hidden: str, name: str) -> str:
        return self.apply(
            "LayerNormalization",
            hidden,
            self._constant(self._weight(f"{name}.weight")),
            self._constant(self._weight(f"{name}.bias")),
            axis=-1,
            epsilon=self._model.layer_norm_epsilon,
        )

    def _weight(self, name: str) -> NDArray[np.float32]:
        if name not in self._weights:
            raise ModelFileError(f"{self._model.name} has no tensor {name}; it is not a BERT-type model")
        return self._weights[name]

    def _integers(self, values: list[int]) -> str:
        return self._constant(np.array(values, np.int64))

    def _constant(self, value: NDArray[Any] | np.generic) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name
