"""BERT-type weights to an ONNX graph that includes pooling and normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelFileError
from backstory.models.embeddings.local.bert_model import BertModel, Weights

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

GRAPH_VERSION = 1
INPUT_IDS = "input_ids"
ATTENTION_MASK = "attention_mask"

_OPSET = 20
_IR_VERSION = 9
_LARGEST_FILE = 2_000_000_000
_ONE = np.float32(1)
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
    weights = model.read_weights()
    size = sum(tensor.nbytes for tensor in weights.values())
    if size > _LARGEST_FILE:
        raise ModelFileError(
            f"{model.name} has {size / 1e9:.1f} GB of float32 weights; at most 2 GB can be run",
            code="too_large",
            model=model.name,
        )
    graph = GraphBuilder(model, weights)
    hidden = graph.embed_tokens()
    attention_bias = graph.mask_padding()
    for layer in range(model.layers):
        hidden = graph.transform(hidden, attention_bias, layer)
    pooled = graph.take_first(hidden) if model.pooling == "cls" else graph.average(hidden)
    output = graph.apply("LpNormalization", pooled, axis=-1, p=2)
    return graph.serialize((INPUT_IDS, ATTENTION_MASK), (output,))


class GraphBuilder:
    """Collects the nodes and constants of one graph. Every method returns the name of its output."""

    def __init__(self, model: BertModel, weights: Weights) -> None:
        self.model = model
        self._weights = weights
        self._head_size = model.hidden_size // model.heads
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        from onnx import helper

        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def serialize(self, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        """Make the ONNX file of the nodes.

        Args:
            inputs: Names of the inputs, int64 of shape ``(texts, tokens)``.
            outputs: Names of the outputs, float32; the first has the vectors.
        """
        import onnx
        from onnx import TensorProto, helper

        of_vectors: list[str | int | None] = ["texts", self.model.hidden_size]
        of_tokens: list[str | int | None] = ["texts", "tokens", "channels"]
        shapes = [of_vectors, *(of_tokens for _ in outputs[1:])]
        proto = helper.make_model(
            helper.make_graph(
                self.nodes,
                self.model.name,
                [
                    helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
                    for name in inputs
                ],
                [
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                    for name, shape in zip(outputs, shapes, strict=True)
                ],
                self.initializers,
            ),
            opset_imports=[helper.make_opsetid("", _OPSET), *self._further_operators()],
            ir_version=_IR_VERSION,
        )
        onnx.checker.check_model(proto)
        content: bytes = proto.SerializeToString(deterministic=True)
        return content

    def _further_operators(self) -> list[Any]:
        from onnx import helper

        return sorted(
            (helper.make_opsetid(domain, 1) for domain in {node.domain for node in self.nodes} - {""}),
            key=lambda opset: str(opset.domain),
        )

    def embed_tokens(self) -> str:
        """Add the normalized embeddings of the tokens."""
        return self.normalize(self.place_tokens(), "embeddings.LayerNorm")

    def place_tokens(self) -> str:
        """Add the embeddings of the tokens and of their places, summed."""
        token_count = self.apply(
            "Slice", self.apply("Shape", INPUT_IDS), self.integers([1]), self.integers([2])
        )
        positions = self.apply(
            "Slice",
            self.constant(self.weight("embeddings.position_embeddings.weight")),
            self.integers([0]),
            token_count,
            self.integers([0]),
        )
        words = self.apply(
            "Gather", self.constant(self.weight("embeddings.word_embeddings.weight")), INPUT_IDS
        )
        first_type = self.constant(self.weight("embeddings.token_type_embeddings.weight")[0])
        return self.apply("Add", words, self.apply("Add", positions, first_type))

    def mask_padding(self) -> str:
        """Add what keeps the padding out of the attention."""
        from onnx import TensorProto

        mask = self.apply("Cast", ATTENTION_MASK, to=TensorProto.FLOAT)
        padding = self.apply("Sub", self.constant(np.float32(1)), mask)
        spread = self.apply("Unsqueeze", padding, self.integers([1, 2]))
        return self.apply("Mul", spread, self.constant(_MASKED))

    def transform(self, hidden: str, attention_bias: str, layer: int) -> str:
        """Add one block."""
        name = f"encoder.layer.{layer}"
        attended = self._attend(hidden, attention_bias, f"{name}.attention.self")
        projected = self.project(attended, f"{name}.attention.output.dense")
        hidden = self.normalize(self.apply("Add", projected, hidden), f"{name}.attention.output.LayerNorm")
        widened = self.apply("Gelu", self.project(hidden, f"{name}.intermediate.dense"))
        narrowed = self.project(widened, f"{name}.output.dense")
        return self.normalize(self.apply("Add", narrowed, hidden), f"{name}.output.LayerNorm")

    def take_first(self, hidden: str) -> str:
        """Add the choice of the first token's row."""
        return self.apply("Gather", hidden, self.constant(np.int64(0)), axis=1)

    def average(self, hidden: str) -> str:
        """Add the mean of the tokens' rows."""
        from onnx import TensorProto

        mask = self.apply("Cast", ATTENTION_MASK, to=TensorProto.FLOAT)
        column = self.apply("Unsqueeze", mask, self.integers([2]))
        tokens = self.integers([1])
        total = self.apply("ReduceSum", self.apply("Mul", hidden, column), tokens, keepdims=0)
        return self.apply("Div", total, self.apply("ReduceSum", column, tokens, keepdims=0))

    def _attend(self, hidden: str, attention_bias: str, name: str) -> str:
        query = self._split_heads(self.project(hidden, f"{name}.query", scale=self._head_size**-0.5))
        key = self._split_heads(self.project(hidden, f"{name}.key"), order=(0, 2, 3, 1))
        value = self._split_heads(self.project(hidden, f"{name}.value"))
        scores = self.apply("Add", self.apply("MatMul", query, key), attention_bias)
        mixed = self.apply("MatMul", self.apply("Softmax", scores, axis=-1), value)
        joined = self.apply("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.apply("Reshape", joined, self.integers([0, 0, self.model.hidden_size]))

    def _split_heads(self, projected: str, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        heads = self.integers([0, 0, self.model.heads, self._head_size])
        return self.apply("Transpose", self.apply("Reshape", projected, heads), perm=order)

    def project(self, hidden: str, name: str, scale: float = 1.0) -> str:
        """Add a product with a matrix and its bias, both times a scale."""
        matrix = self.constant(np.ascontiguousarray(self.weight(f"{name}.weight").T) * np.float32(scale))
        bias = self.constant(self.weight(f"{name}.bias") * np.float32(scale))
        return self.apply("Add", self.apply("MatMul", hidden, matrix), bias)

    def normalize(self, hidden: str, name: str, divisor: NDArray[np.float32] | np.float32 = _ONE) -> str:
        """Add a layer normalization, whose output is divided by a divisor for each channel."""
        return self.apply(
            "LayerNormalization",
            hidden,
            self.constant(self.weight(f"{name}.weight") / divisor),
            self.constant(self.weight(f"{name}.bias") / divisor),
            axis=-1,
            epsilon=self.model.layer_norm_epsilon,
        )

    def weight(self, name: str) -> NDArray[np.float32]:
        """Return a tensor of the model."""
        if name not in self._weights:
            raise ModelFileError(
                f"{self.model.name} has no tensor {name}; it is not a BERT-type model",
                code="absent_tensor",
                model=self.model.name,
                tensor=name,
            )
        return self._weights[name]

    def integers(self, values: list[int]) -> str:
        """Add a constant of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def constant(self, value: NDArray[Any] | np.generic) -> str:
        """Add a constant."""
        from onnx import numpy_helper

        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name
