"""Tenon's kernels in PyTorch.

    import tenon.torch as tt
    fused = tt.RMSNormLinear.from_torch(norm, linear)       # computes linear(norm(x))
    qkv = tt.RMSNormLinear.from_torch(norm, q, k, v)        # a tuple of three
    mlp = tt.RMSNormGatedMLP.from_torch(norm, gate, up, down)

Modules bind on their first call, work under torch.compile and in CUDA graphs (call each once
before a capture), and run their plain PyTorch form where no kernel is stored for the shape."""
from ._fused import Fused, forget_libraries, library_for, set_database
from ._modules import LayerNormLinear, RMSNormGatedMLP, RMSNormLinear
from ._operator import native_note

__all__ = ["Fused", "LayerNormLinear", "RMSNormGatedMLP", "RMSNormLinear", "forget_libraries", "library_for", "native_note", "set_database"]
