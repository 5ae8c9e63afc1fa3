"""BERT-type weights to an ONNX graph whose projections multiply whole numbers of 8 bits.

The scales of the activations are constants, so a text has the same vector in every batch. Each channel is first
divided by a factor that moves a part of its range into the weights (SmoothQuant, Xiao et al. 2022): a few channels
are a hundred times as wide as the others. Where a layer normalization or a projection comes before, the factor is
folded into its weights.

There is no mask: the texts of a batch have the same number of tokens. onnxruntime then runs a fused attention.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backstory.embeddings.local.activation_ranges import ActivationRanges
from backstory.embeddings.local.bert_model import BertModel, Weights
from backstory.embeddings.local.onnx_graph import INPUT_IDS, GraphBuilder

INT8_GRAPH_VERSION = 1

WeightType = Literal["int8", "uint8"]

_DOMAIN = "com.microsoft"
_SMOOTHING = 0.75
"""Power of the ranges in the factors. Measured: .6 loses four times as much cosine, .7 more on the shortest texts, and
.8 more on messages."""
_SMALLEST = np.float32(1e-4)
_ONE = np.float32(1)
_STEPS = 255
_LARGEST_WEIGHT = 127
_MIDDLE = 128
_PROCESSORS = Path("/proc/cpuinfo")


def choose_weight_type() -> WeightType:
    """Choose the fastest type of the weights whose sums are exact on this processor; the vectors are the same.

    Without the instructions VNNI, onnxruntime's product of unsigned and signed numbers saturates on x86. That of two
    unsigned ones does not, but is no faster than float32.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "int8"
    flags = _PROCESSORS.read_text(encoding="utf-8").split() if _PROCESSORS.exists() else []
    return "int8" if {"avx512_vnni", "avx_vnni"} & set(flags) else "uint8"


def build_int8_graph(model: BertModel, ranges: ActivationRanges, weight_type: WeightType) -> bytes:
    """Build the graph.

    The input is ``input_ids``, int64 of shape ``(texts, tokens)``, without padding. The output is float32 unit rows
    of shape ``(texts, hidden_size)``.

    Args:
        model: Architecture and weights; the weights are read here. It pools by the first token.
        ranges: Ranges of its activations.
        weight_type: From :func:`choose_weight_type`.

    Returns:
        The serialized ONNX file.

    Raises:
        ModelFileError: A tensor is absent or of the wrong shape.
    """
    graph = _Int8GraphBuilder(model, model.read_weights(), ranges, weight_type)
    sum_of_layer, norm = graph.place_tokens(), "embeddings.LayerNorm"
    for layer in range(model.layers):
        sum_of_layer = graph.transform_sum(sum_of_layer, norm, layer)
        norm = f"encoder.layer.{layer}.output.LayerNorm"
    pooled = graph.normalize(graph.take_first(sum_of_layer), norm)
    return graph.serialize((INPUT_IDS,), (graph.apply("LpNormalization", pooled, axis=-1, p=2),))


class _Quantized(NamedTuple):
    """Activations as whole numbers: ``(values - zero) * scale * factors`` are the numbers that they stand for."""

    values: str
    scale: np.float32
    zero: np.uint8
    factors: NDArray[np.float32]


class _Int8GraphBuilder(GraphBuilder):
    """Collects the nodes of a graph of whole numbers."""

    def __init__(
        self, model: BertModel, weights: Weights, ranges: ActivationRanges, weight_type: WeightType
    ) -> None:
        super().__init__(model, weights)
        self._ranges = ranges
        self._weight_type = weight_type

    def transform_sum(self, summed: str, norm: str, layer: int) -> str:
        """Add one block; it takes and gives sums that are not yet normalized, since they are normalized twice."""
        name = f"encoder.layer.{layer}"
        attended = self._attend_quantized(summed, norm, name)
        projected = self._multiply(attended, f"{name}.attention.output.dense")
        between = self.apply("Add", projected, self.normalize(summed, norm))
        norm = f"{name}.attention.output.LayerNorm"
        factors = self._smooth(f"{name}.intermediate.dense", [f"{name}.intermediate.dense"])
        asked = self._quantize(self.normalize(between, norm, factors), f"{name}.intermediate.dense", factors)
        widened = self.apply("Gelu", self._multiply(asked, f"{name}.intermediate.dense"))
        factors = self._smooth(f"{name}.output.dense", [f"{name}.output.dense"])
        narrowed = self.apply("Mul", widened, self.constant(1 / factors))
        answered = self._multiply(
            self._quantize(narrowed, f"{name}.output.dense", factors), f"{name}.output.dense"
        )
        return self.apply("Add", answered, self.normalize(between, norm))

    def _attend_quantized(self, summed: str, norm: str, name: str) -> _Quantized:
        attention, output = f"{name}.attention.self", f"{name}.attention.output.dense"
        parts = [f"{attention}.{part}" for part in ("query", "key", "value")]
        factors = self._smooth(attention, parts)
        shared = self._quantize(self.normalize(summed, norm, factors), attention, factors)
        after = self._smooth(output, [output])
        query, key = (self._multiply(shared, part) for part in parts[:2])
        value = self._multiply(shared, parts[2], after)
        mixed = self.apply(
            "MultiHeadAttention", query, key, value, domain=_DOMAIN, num_heads=self.model.heads
        )
        return self._quantize(mixed, output, after)

    def _smooth(self, name: str, projections: Sequence[str]) -> NDArray[np.float32]:
        """Compute the factor of each channel, from its range and from its largest weight."""
        widest = np.abs(self._ranges.limits[name]).max(axis=0)
        heaviest = np.max([np.abs(self.weight(f"{part}.weight")).max(axis=0) for part in projections], axis=0)
        kept = np.maximum(heaviest, _SMALLEST) ** (1 - _SMOOTHING)
        factors: NDArray[np.float32] = (np.maximum(widest, _SMALLEST) ** _SMOOTHING / kept).astype(np.float32)
        return factors

    def _quantize(self, divided: str, name: str, factors: NDArray[np.float32]) -> _Quantized:
        limits = self._ranges.limits[name] / factors
        low, high = min(0.0, float(limits.min())), max(0.0, float(limits.max()))
        scale = np.float32((high - low) / _STEPS)
        zero = np.uint8(round(-low / float(scale)))
        values = self.apply("QuantizeLinear", divided, self.constant(scale), self.constant(zero))
        return _Quantized(values, scale, zero, factors)

    def _multiply(
        self, given: _Quantized, name: str, divisor: NDArray[np.float32] | np.float32 = _ONE
    ) -> str:
        """Project; the outputs are divided by a divisor for each channel."""
        matrix = (self.weight(f"{name}.weight").T * given.factors[:, None] / divisor).astype(np.float32)
        scales = (np.abs(matrix).max(axis=0) / _LARGEST_WEIGHT).astype(np.float32)
        rounded = np.rint(matrix / scales).clip(-_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        is_signed = self._weight_type == "int8"
        numbers = rounded.astype(np.int8) if is_signed else (rounded + _MIDDLE).astype(np.uint8)
        return self.apply(
            "MatMulIntegerToFloat",
            given.values,
            self.constant(numbers),
            self.constant(given.scale),
            self.constant(scales),
            self.constant(given.zero),
            "" if is_signed else self.constant(np.uint8(_MIDDLE)),
            self.constant((self.weight(f"{name}.bias") / divisor).astype(np.float32)),
            domain=_DOMAIN,
        )
