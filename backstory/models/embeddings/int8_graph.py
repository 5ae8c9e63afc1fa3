"""BERT-type weights to an ONNX graph whose projections multiply whole numbers of 8 bits.

Constant scales by ranges in a file give a text the same vector in every batch. A factor for each channel moves a part
of its range into the weights (SmoothQuant, Xiao et al. 2022). The widest channels between the projections of a block
stay in float32, as does the last block, of which only the first token's row is computed. Without a mask onnxruntime
runs a fused attention; the texts of a batch have the same length.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.files.arrays import view_array
from backstory.models.embeddings.bert_graph import BertModel, GraphBuilder
from backstory.models.onnx_text import INPUT_IDS

Floats: TypeAlias = NDArray[np.float32]

_RANGES: Final = files("backstory.models.embeddings") / "granite_activation_ranges.npz"
INT8_VERSION: Final = f"{hashlib.sha256(_RANGES.read_bytes()).hexdigest()} 2"
"""Names everything but the model that the vectors depend on."""

_DOMAIN: Final = "com.microsoft"
_PARTS: Final = ("query", "key", "value")
# Powers of the ranges in the factors, chosen by the cosines to float32 on documents, claims and messages.
_POWER_OF_ATTENTION, _POWER_OF_MIXED, _POWER_OF_WIDENING, _POWER_OF_NARROWING = 0.7, 0.6, 0.6, 0.5
# Channels of a block that stay in float32: without them the error is twice as large, 32 hardly help.
_FLOAT_CHANNELS: Final = 16
# Processors without the instructions VNNI add two products in 16 bits: 2 * 255 * 64 is the most that fits.
_LARGEST_WEIGHT: Final = 64
# Rows of the last block: onnxruntime multiplies a single row in another order, so a text alone would differ.
_ROWS: Final = 2


def build_int8_graph(model: BertModel) -> bytes:
    """Build the graph of the shipped model, from ``input_ids`` of at least two tokens to unit rows of float32."""
    graph = _Int8GraphBuilder(model)
    # By so much the pooled row of whole numbers exceeds that of float32 on average.
    corrected = graph.apply("Sub", graph.pool(), graph.constant(graph.offset))
    return graph.serialize((INPUT_IDS,), graph.apply("LpNormalization", corrected, axis=-1, p=2))


class _Quantized(NamedTuple):
    """Whole numbers, which stand for ``(values - zero) * scale * factors``."""

    values: str
    scale: np.float32
    zero: np.uint8
    factors: Floats


class _Int8GraphBuilder(GraphBuilder):
    def __init__(self, model: BertModel) -> None:
        super().__init__(model)
        # Least and largest value of each channel of the inputs of a projection, shape (2, channels).
        with zipfile.ZipFile(io.BytesIO(_RANGES.read_bytes())) as archive:
            stored = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
        self.offset = view_array(stored.pop("offset"), np.float32)
        self.ranges = {
            name: view_array(content, np.float16).astype(np.float32).reshape(2, -1)
            for name, content in stored.items()
        }

    def pool(self) -> str:
        """Add all blocks, and the choice of the first token's row."""
        summed, norm = self.place_tokens(), "embeddings.LayerNorm"
        *names, last = (f"encoder.layer.{layer}" for layer in range(self.model.layers))
        for name in names:
            summed, norm = self._transform_sum(summed, norm, name), f"{name}.output.LayerNorm"
        return self._transform_first(summed, norm, last)

    def _transform_sum(self, summed: str, norm: str, name: str) -> str:
        """Add one block; it takes and gives sums that are not yet normalized, since they are normalized twice."""
        attention, output = f"{name}.attention.self", f"{name}.attention.output.dense"
        shared = self._quantize_for_attention(summed, norm, attention)
        limits = self.ranges[output]
        after = _smooth(limits, self.weight(f"{output}.weight"), _POWER_OF_MIXED)
        query, key = (self._project(shared, f"{attention}.{part}") for part in _PARTS[:2])
        mixed = self._mix(query, key, self._project(shared, f"{attention}.value", after))
        projected = self._project(self._quantize(mixed, limits, after), output)
        between = self.apply("Add", projected, self.normalize(summed, norm))
        norm = f"{name}.attention.output.LayerNorm"
        return self.apply("Add", self._feed_forward(between, norm, name), self.normalize(between, norm))

    def _transform_first(self, summed: str, norm: str, name: str) -> str:
        """Add the last block: keys and values of all tokens, and everything else of the first token only."""
        attention = f"{name}.attention.self"
        shared = self._quantize_for_attention(summed, norm, attention)
        key, value = (self._project(shared, f"{attention}.{part}") for part in _PARTS[1:])
        first = self.apply("Slice", summed, self.integers([0]), self.integers([_ROWS]), self.integers([1]))
        hidden = self.normalize(first, norm)
        mixed = self._mix(self.project(hidden, f"{attention}.query"), key, value)
        return self.take_first(self.finish_block(mixed, hidden, name))

    def _feed_forward(self, between: str, norm: str, name: str) -> str:
        before, after = f"{name}.intermediate.dense", f"{name}.output.dense"
        widening, bias = self.weight(f"{before}.weight"), self.weight(f"{before}.bias")
        narrowing, limits = self.weight(f"{after}.weight"), self.ranges[after]
        quantized = self._quantize_normal(between, norm, before, widening, _POWER_OF_WIDENING)
        order = np.argsort(-np.abs(limits).max(axis=0) * np.abs(narrowing).max(axis=0), kind="stable")
        wide, others = np.sort(order[:_FLOAT_CHANNELS]), np.sort(order[_FLOAT_CHANNELS:])
        few = self.apply("Gelu", self._multiply(quantized, widening[wide], bias[wide]))
        of_few = self.apply("MatMul", few, self.constant(np.ascontiguousarray(narrowing[:, wide].T)))
        many = self.apply("Gelu", self._multiply(quantized, widening[others], bias[others]))
        limits, narrowing = limits[:, others], narrowing[:, others]
        factors = _smooth(limits, narrowing, _POWER_OF_NARROWING)
        quantized = self._quantize(self.apply("Mul", many, self.constant(1 / factors)), limits, factors)
        return self.apply("Add", of_few, self._multiply(quantized, narrowing, self.weight(f"{after}.bias")))

    def _quantize_for_attention(self, summed: str, norm: str, attention: str) -> _Quantized:
        weight = np.concatenate([self.weight(f"{attention}.{part}.weight") for part in _PARTS])
        return self._quantize_normal(summed, norm, attention, weight, _POWER_OF_ATTENTION)

    def _quantize_normal(self, summed: str, norm: str, name: str, weight: Floats, power: float) -> _Quantized:
        factors = _smooth(self.ranges[name], weight, power)
        return self._quantize(self.normalize(summed, norm, factors), self.ranges[name], factors)

    def _mix(self, *parts: str) -> str:
        return self.apply("MultiHeadAttention", *parts, domain=_DOMAIN, num_heads=self.model.heads)

    def _quantize(self, divided: str, limits: Floats, factors: Floats) -> _Quantized:
        limits = limits / factors
        low, high = min(0.0, float(limits.min())), max(0.0, float(limits.max()))
        scale = np.float32((high - low) / 255)
        zero = np.uint8(round(-low / float(scale)))
        values = self.apply("QuantizeLinear", divided, self.constant(scale), self.constant(zero))
        return _Quantized(values, scale, zero, factors)

    def _project(self, operand: _Quantized, name: str, divisor: Floats | None = None) -> str:
        """Project; the outputs are divided by a divisor for each channel."""
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        if divisor is not None:
            weight, bias = weight / divisor[:, None], bias / divisor
        return self._multiply(operand, weight, bias)

    def _multiply(self, operand: _Quantized, weight: Floats, bias: Floats) -> str:
        """Multiply by a weight of shape ``(outputs, inputs)``, and add a bias."""
        matrix = (weight * operand.factors).T
        scales = (np.abs(matrix).max(axis=0) / _LARGEST_WEIGHT).astype(np.float32)
        whole = np.rint(matrix / scales).clip(-_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int8)
        numbers = (whole, operand.scale, scales, operand.zero, bias.astype(np.float32))
        *constants, added = (self.constant(each) for each in numbers)
        return self.apply("MatMulIntegerToFloat", operand.values, *constants, "", added, domain=_DOMAIN)


def _smooth(limits: Floats, weight: Floats, power: float) -> Floats:
    """Compute the factor of each channel, from its range and from its largest weight."""
    widest, heaviest = (np.maximum(np.abs(each).max(axis=0), np.float32(1e-4)) for each in (limits, weight))
    return np.asarray(widest**power / heaviest ** (1 - power), np.float32)
