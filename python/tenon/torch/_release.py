"""Giving back the memory of weights that a bound kernel holds in a form of its own."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import torch
from torch import nn

from .._native import BadInputError


class Released(NamedTuple):
    """A parameter `weight` of `owner` that is no longer on its device."""
    owner: nn.Module
    device: torch.device
    kept: bool  # on the host; else its values are gone
    hooks: List[Any]


def _replace(owner: nn.Module, data: torch.Tensor) -> None:
    owner.weight = nn.Parameter(data, requires_grad=owner.weight.requires_grad)


def _refuse_state(owner: nn.Module, prefix: str, keep_vars: bool) -> None:
    raise BadInputError(f"{prefix}weight was released without a copy: load a state dict first, or use release_originals(keep='cpu')")


class Originals:
    """The original weights of one fused module: where they are, and how they come back."""

    def __init__(self) -> None:
        self._released: List[Released] = []

    def __bool__(self) -> bool:
        """Is one of them away?"""
        return bool(self._released)

    @property
    def gone(self) -> bool:
        """Are the values of one of them gone?"""
        return any(not r.kept for r in self._released)

    def release(self, owner: nn.Module, keep: bool) -> int:
        """Takes `owner.weight` off its device; returns the bytes. Who else holds the tensor keeps it alive."""
        weight = owner.weight
        if keep and weight.device.type == "cpu":
            return 0
        size = weight.numel() * weight.element_size()
        _replace(owner, weight.detach().to("cpu") if keep else torch.empty_like(weight, device="meta"))
        hooks = [owner.register_load_state_dict_pre_hook(lambda module, state, prefix, *_: self._before_load(module, state, prefix))]
        if not keep:
            hooks.append(owner.register_state_dict_pre_hook(_refuse_state))
        self._released.append(Released(owner, weight.device, keep, hooks))
        return size

    def restore(self) -> None:
        """Brings back what was kept. Raises BadInputError where values are gone."""
        if self.gone:
            raise BadInputError("the original weights were released without a copy; load a state dict to have them again")
        for r in self._released:
            _replace(r.owner, r.owner.weight.detach().to(r.device))
        self._forget(self._released)

    def _before_load(self, owner: nn.Module, state: Dict[str, Any], prefix: str) -> None:
        """Makes room for the values that are about to be loaded into `owner`."""
        if prefix + "weight" not in state:
            return
        mine = [r for r in self._released if r.owner is owner]
        for r in mine:
            _replace(owner, torch.empty_like(owner.weight, device=r.device))
        self._forget(mine)

    def _forget(self, some: List[Released]) -> None:
        for r in some:
            for hook in r.hooks:
                hook.remove()
        self._released = [r for r in self._released if not any(r is s for s in some)]


def adopt_views(owners: List[nn.Module], held: torch.Tensor) -> int:
    """The kernel reads `held`, [rows of all owners, k], which has the very values of the owners' weights: they become
    views of it. Returns the bytes that this gives back."""
    begin, freed = 0, 0
    for owner in owners:
        weight = owner.weight
        end = begin + weight.shape[0]
        if weight.data_ptr() != held[begin:end].data_ptr():
            freed += weight.numel() * weight.element_size()
            _replace(owner, held[begin:end])
        begin = end
    return freed
