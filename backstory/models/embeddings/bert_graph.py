"""BERT-type models, and the ONNX graph of their weights, which includes pooling and normalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Task
from backstory.models.onnx_text import ATTENTION_MASK, INPUT_IDS

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

Weights: TypeAlias = Mapping[str, NDArray[np.float32]]
Pooling: TypeAlias = Literal["cls", "mean"]

GRAPH_VERSION: Final = 1

_OPSET: Final = 20
_IR_VERSION: Final = 9
_ONE: Final = np.float32(1)
_MASKED: Final = np.float32(np.finfo(np.float32).min / 2)


@dataclass(frozen=True)
class BertModel:
    """A transformer encoder (Devlin et al. 2019) and the pooling of its output into one vector.

    The name is safe as a file name, and the checksum is that of all files that the vectors depend on. The tensors have
    the names of Hugging Face's ``BertModel``; row 0 of the table of positions belongs to the first token.
    """

    name: str
    checksum: str
    hidden_size: int
    layers: int
    heads: int
    layer_norm_epsilon: float
    pooling: Pooling
    max_input_tokens: int
    min_similarity: float
    languages: tuple[str, ...] | None
    prompts: Mapping[Task, str]
    read_tokenizer: Callable[[], bytes]
    read_weights: Callable[[], Weights]


def build_graph(model: BertModel) -> bytes:
    """Build the float32 graph of a model: from texts, padded on the right, to unit rows."""
    graph = GraphBuilder(model)
    hidden = graph.normalize(graph.place_tokens(), "embeddings.LayerNorm")
    attention_bias = graph.mask_padding()
    for layer in range(model.layers):
        hidden = graph.transform(hidden, attention_bias, layer)
    pooled = graph.take_first(hidden) if model.pooling == "cls" else graph.average(hidden)
    output = graph.apply("LpNormalization", pooled, axis=-1, p=2)
    return graph.serialize((INPUT_IDS, ATTENTION_MASK), output)


class GraphBuilder:
    """Collects the nodes and constants of one graph. Every method returns the name of its output."""

    def __init__(self, model: BertModel) -> None:
        self.model = model
        self._weights = model.read_weights()
        self._head_size = model.hidden_size // model.heads
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        from onnx import helper

        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def serialize(self, inputs: tuple[str, ...], output: str) -> bytes:
        """Make the ONNX file of the nodes, whose output is a row of float32 for each text."""
        import onnx
        from onnx import TensorProto, helper

        domains = sorted({"", *(node.domain for node in self.nodes)})
        proto = helper.make_model(
            helper.make_graph(
                self.nodes,
                self.model.name,
                [
                    helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
                    for name in inputs
                ],
                [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["texts", self.model.hidden_size])],
                self.initializers,
            ),
            opset_imports=[helper.make_opsetid(domain, 1 if domain else _OPSET) for domain in domains],
            ir_version=_IR_VERSION,
        )
        onnx.checker.check_model(proto)
        content: bytes = proto.SerializeToString(deterministic=True)
        return content

    def place_tokens(self) -> str:
        """Add the embeddings of the tokens and of their places, summed."""
        shape = self.apply("Shape", INPUT_IDS)
        token_count = self.apply("Slice", shape, self.integers([1]), self.integers([2]))
        table = self.constant(self.weight("embeddings.position_embeddings.weight"))
        positions = self.apply("Slice", table, self.integers([0]), token_count, self.integers([0]))
        table = self.constant(self.weight("embeddings.word_embeddings.weight"))
        words = self.apply("Gather", table, INPUT_IDS)
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
        return self.finish_block(self._attend(hidden, attention_bias, f"{name}.attention.self"), hidden, name)

    def finish_block(self, attended: str, hidden: str, name: str) -> str:
        """Add what comes after the attention of a block."""
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
