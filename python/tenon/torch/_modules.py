"""Modules built from existing ones."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import nn

from .._library import Kernel
from .._native import BadInputError, NotFoundError
from ._fused import Fused


def _eps_of(norm: nn.Module, dtype: torch.dtype) -> float:
    for name in ("eps", "variance_epsilon", "epsilon"):
        eps = getattr(norm, name, None)
        if eps is not None:
            return float(eps)
    return torch.finfo(dtype).eps  # nn.RMSNorm's default


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), 0)


class _NormLinear(Fused):
    """A norm and one or more linear layers that read it; several give a tuple of results."""

    def __init__(self, norm: nn.Module, *linears: nn.Linear, **options: Any):
        super().__init__(**options)
        if not linears:
            raise BadInputError("no linear layer was given; one or more are needed")
        if any(l.in_features != linears[0].in_features for l in linears):
            raise BadInputError("the linear layers read " + ", ".join(str(l.in_features) for l in linears) + " columns; they must read the same")
        self.norm = norm
        if len(linears) == 1:
            self.linear = linears[0]
        else:
            self.linears = nn.ModuleList(linears)
        self._one = len(linears) == 1
        self._widths = [l.out_features for l in linears]

    def _all(self) -> List[nn.Linear]:
        return [self.linear] if self._one else list(self.linears)

    def _width(self) -> int:
        return sum(self._widths)

    _layouts = {"w": "n,k"}

    def _weights(self) -> torch.Tensor:
        return _joined([l.weight for l in self._all()])

    def _owners(self) -> Dict[str, List[nn.Module]]:
        return {"w": list(self._all())}

    def forward(self, x: torch.Tensor) -> Any:
        y = self.fused(x)
        return y if self._one else y.split(self._widths, dim=-1)


class RMSNormLinear(_NormLinear):
    """linear(norm(x)) for an RMSNorm and linear layers without bias.

    `RMSNormLinear.from_torch(norm, linear)` gives a module that returns linear(norm(x));
    `from_torch(norm, q, k, v)` returns the three results, from one kernel."""

    _program = "rmsnorm_linear"

    @classmethod
    def from_torch(cls, norm: nn.Module, *linears: nn.Linear, **options: Any) -> "RMSNormLinear":
        """`norm` has a weight and an eps (nn.RMSNorm, or a model's own class of that form)."""
        if getattr(norm, "weight", None) is None:
            raise BadInputError(f"the norm ({type(norm).__name__}) has no weight; one is needed")
        if any(l.bias is not None for l in linears):
            raise BadInputError("a linear layer has a bias; RMSNormLinear takes layers without")
        return cls(norm, *linears, **options)

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        normed = F.rms_norm(x, (x.shape[-1],), self.norm.weight, _eps_of(self.norm, x.dtype))
        return F.linear(normed, _joined([l.weight for l in self._all()]))

    def _watched(self) -> Tuple[torch.Tensor, ...]:
        return (self.norm.weight, *(l.weight for l in self._all()))

    def _parameters_by_name(self) -> Dict[str, torch.Tensor]:
        return {"g": self.norm.weight, "w": self._weights()}

    def _attributes(self) -> Dict[str, float]:
        return {"eps": _eps_of(self.norm, self.norm.weight.dtype)}


class LayerNormLinear(_NormLinear):
    """linear(norm(x)) for an nn.LayerNorm with weight and bias, and linear layers (a missing bias counts as 0)."""

    _program = "layernorm_linear"

    @classmethod
    def from_torch(cls, norm: nn.LayerNorm, *linears: nn.Linear, **options: Any) -> "LayerNormLinear":
        if norm.weight is None:
            raise BadInputError("the norm has no weight; elementwise_affine is needed")
        return cls(norm, *linears, **options)

    def _bias(self) -> torch.Tensor:
        return _joined([l.bias if l.bias is not None else l.weight.new_zeros(l.out_features) for l in self._all()])

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        normed = F.layer_norm(x, (x.shape[-1],), self.norm.weight, self.norm.bias, self.norm.eps)
        return F.linear(normed, _joined([l.weight for l in self._all()]), self._bias())

    def _watched(self) -> Tuple[torch.Tensor, ...]:
        biases = [l.bias for l in self._all() if l.bias is not None]
        own = [self.norm.bias] if self.norm.bias is not None else []
        return (self.norm.weight, *own, *(l.weight for l in self._all()), *biases)

    def _parameters_by_name(self) -> Dict[str, torch.Tensor]:
        bias = self.norm.bias if self.norm.bias is not None else torch.zeros_like(self.norm.weight)
        return {"g": self.norm.weight, "b": bias, "w": self._weights(), "c": self._bias()}

    def _attributes(self) -> Dict[str, float]:
        return {"eps": float(self.norm.eps)}


class RMSNormGatedMLP(Fused):
    """down(silu(gate(norm(x))) * up(norm(x))).

    Norm, both products and the activation are one kernel where rmsnorm_gated_mlp_in is stored for the shape; else
    norm and both products are, where rmsnorm_linear is stored for twice the columns. The last product is PyTorch's."""

    _program = "rmsnorm_gated_mlp_in"

    def __init__(self, norm: nn.Module, gate: nn.Linear, up: nn.Linear, down: nn.Linear, **options: Any):
        super().__init__(**options)
        if gate.weight.shape != up.weight.shape:
            raise BadInputError(f"gate has {tuple(gate.weight.shape)} weights and up {tuple(up.weight.shape)}; they must be as many")
        if gate.bias is not None or up.bias is not None:
            raise BadInputError("gate or up has a bias; RMSNormGatedMLP takes layers without")
        self.norm, self.gate, self.up, self.down = norm, gate, up, down

    @classmethod
    def from_torch(cls, norm: nn.Module, gate: nn.Linear, up: nn.Linear, down: nn.Linear, **options: Any) -> "RMSNormGatedMLP":
        return cls(norm, gate, up, down, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.fused(x))

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        normed = F.rms_norm(x, (x.shape[-1],), self.norm.weight, _eps_of(self.norm, x.dtype))
        return F.silu(self.gate(normed)) * self.up(normed)

    def _width(self) -> int:
        return self.gate.out_features

    def _kernel_width(self) -> int:
        return self._width() * (1 if self._post is None else 2)

    def _bind_some(self, device: torch.device, dtype: str) -> Kernel:
        self._program, self._post = "rmsnorm_gated_mlp_in", None
        try:
            return self._bind(device, dtype)
        except NotFoundError as first:
            self._program, self._post = "rmsnorm_linear", _gated
            try:
                return self._bind(device, dtype)
            except NotFoundError:
                self._program, self._post = "rmsnorm_gated_mlp_in", None
                raise first from None

    def _watched(self) -> Tuple[torch.Tensor, ...]:
        return (self.norm.weight, self.gate.weight, self.up.weight)

    def _parameters_by_name(self) -> Dict[str, torch.Tensor]:
        if self._post is None:
            return {"g": self.norm.weight, "wg": self.gate.weight, "wu": self.up.weight}
        return {"g": self.norm.weight, "w": _joined([self.gate.weight, self.up.weight])}

    @property
    def _layouts(self) -> Dict[str, str]:
        return {"wg": "n,k", "wu": "n,k"} if self._post is None else {"w": "n,k"}

    def _owners(self) -> Dict[str, List[nn.Module]]:
        return {"wg": [self.gate], "wu": [self.up]} if self._post is None else {"w": [self.gate, self.up]}

    def _attributes(self) -> Dict[str, float]:
        return {"eps": _eps_of(self.norm, self.norm.weight.dtype)}


def _gated(both: torch.Tensor) -> torch.Tensor:
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate) * up
