// The catalog: for each program its formula, where real models have it, and its text form, whose
// casts stand where frameworks round. docs/programs.md lists them; a further one is an entry here.
#include "ir/catalog_entries.h"

namespace tenon::ir {

const std::vector<CatalogText>& catalog_texts() {
  static const std::vector<CatalogText> texts = {
      {"Y = (X / sqrt(mean(X^2) + eps) * g) W",
       "every projection after an RMSNorm: qkv and gate+up of Llama, Qwen, SmolLM, DeepSeek",
       R"(program rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)                # rounded to the activation's type, as frameworks do
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)"},
      {"Y = ((X - mean(X)) / sqrt(var(X) + eps) * g + b) W + c",
       "every projection after a LayerNorm: GPT-2, OPT, Falcon, Phi, StableLM, ViT, Whisper",
       R"(program layernorm_linear
dims m, k, n
attribute eps = 1e-5
input x: T[m, k] activation
input g: T[k] parameter
input b: T[k] parameter
input w: T[k, n] parameter
input c: T[n] parameter
%s = sum(x, k)
%inv = const(1/k)
%mu = mul(%s, %inv)
%d = sub(x, %mu)
%sq = square(%d)
%ss = sum(%sq, k)
%var = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%var, %eps)
%r = rsqrt(%ve)
%xr = mul(%d, %r)
%xg = mul(%xr, g)
%xb = add(%xg, b)
%xc = cast(%xb, T)
%y = matmul(%xc, w, k)
%yb = add(%y, c)
%yc = cast(%yb, T)
output y: T = %yc
)"},
      {"S = X + E; Y = (S / sqrt(mean(S^2) + eps) * g) W",
       "the residual add before every norm but the first: Llama, Qwen, Mistral",
       R"(program add_rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input e: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%sum = add(x, e)
%s = cast(%sum, T)                # the residual stream is kept in the activation's type
%sq = square(%s)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(%s, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output s: T = %s
output y: T = %yc
)"},
      {"H = X / sqrt(mean(X^2) + eps) * g; Y = silu(H Wg) * (H Wu)",
       "the first half of a gated MLP (SwiGLU): Llama, Qwen, Mistral, DeepSeek",
       R"(program rmsnorm_gated_mlp_in
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input wg: T[k, n] parameter
input wu: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%gate = matmul(%xc, wg, k)
%gc = cast(%gate, T)
%act = silu(%gc)
%ac = cast(%act, T)
%up = matmul(%xc, wu, k)
%uc = cast(%up, T)
%y = mul(%ac, %uc)
%yc = cast(%y, T)
output y: T = %yc
)"},
      {"H = X / sqrt(mean(X^2) + eps) * g; Y = gelu_tanh(H Wg) * (H Wu)",
       "the first half of a gated MLP (GeGLU): T5 v1.1, PaliGemma's and Gemma's with g for 1 + w",
       R"(program rmsnorm_gated_mlp_in_gelu
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input wg: T[k, n] parameter
input wu: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%gate = matmul(%xc, wg, k)
%gc = cast(%gate, T)
%act = gelu_tanh(%gc)
%ac = cast(%act, T)
%up = matmul(%xc, wu, k)
%uc = cast(%up, T)
%y = mul(%ac, %uc)
%yc = cast(%y, T)
output y: T = %yc
)"},
      {"H = X / sqrt(mean(X^2) + eps) * g; Q = H Wq; K = H Wk; V = H Wv",
       "attention's projections with weights of their own: Llama, Qwen, Mistral",
       R"(program rmsnorm_qkv
dims m, k, nq, nk, nv
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input wq: T[k, nq] parameter
input wk: T[k, nk] parameter
input wv: T[k, nv] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%q = matmul(%xc, wq, k)
%qc = cast(%q, T)
%k = matmul(%xc, wk, k)
%kc = cast(%k, T)
%v = matmul(%xc, wv, k)
%vc = cast(%v, T)
output q: T = %qc
output kk: T = %kc
output v: T = %vc
)"},
      {"P = X W; Y = P / sqrt(mean_d(P^2) + eps) * g, d within each head",
       "QK-norm after the projection: Qwen3, Gemma 3 (g being 1 + w)",
       R"(program linear_headnorm
dims m, k, h, d
attribute eps = 1e-6
input x: T[m, k] activation
input w: T[k, h, d] parameter
input g: T[d] parameter
%p = matmul(x, w, k)
%y = cast(%p, T)
%sq = square(%y)
%ss = sum(%sq, d)
%inv = const(1/d)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%yr = mul(%y, %r)
%yg = mul(%yr, g)
%zc = cast(%yg, T)
output y: T = %zc
)"},
      {"P = X W; Y = (P - mean_d(P)) / sqrt(var_d(P) + eps) * g + b, d within each head",
       "QK-norm by LayerNorm, with weights per head: Chameleon, StableLM 2 12B",
       R"(program linear_head_layernorm
dims m, k, h, d
attribute eps = 1e-5
input x: T[m, k] activation
input w: T[k, h, d] parameter
input g: T[h, d] parameter
input b: T[h, d] parameter
%p = matmul(x, w, k)
%y = cast(%p, T)
%s = sum(%y, d)
%inv = const(1/d)
%mu = mul(%s, %inv)
%d = sub(%y, %mu)
%sq = square(%d)
%ss = sum(%sq, d)
%var = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%var, %eps)
%r = rsqrt(%ve)
%xr = mul(%d, %r)
%xg = mul(%xr, g)
%xb = add(%xg, b)
%xc = cast(%xb, T)
output y: T = %xc
)"},
      {"Y = ((X - mean) / sqrt(var + eps) * g + b) W + c",
       "inference after a BatchNorm with running statistics: the classifier of LeViT, tabular and "
       "recommender MLPs",
       R"(program batchnorm_linear
dims m, k, n
attribute eps = 1e-5
input x: T[m, k] activation
input mean: T[k] parameter
input var: T[k] parameter
input g: T[k] parameter
input b: T[k] parameter
input w: T[k, n] parameter
input c: T[n] parameter
%d = sub(x, mean)
%eps = const(eps)
%ve = add(var, %eps)
%r = rsqrt(%ve)
%xr = mul(%d, %r)
%xg = mul(%xr, g)
%xb = add(%xg, b)
%xc = cast(%xb, T)
%y = matmul(%xc, w, k)
%yb = add(%y, c)
%yc = cast(%yb, T)
output y: T = %yc
)"},
      {"Y = gelu((X / sqrt(mean(X^2) + eps) * g) W + c)",
       "the first half of a plain MLP after an RMSNorm",
       R"(program rmsnorm_linear_bias_gelu
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
input c: T[n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%xg = mul(%xr, g)
%xc = cast(%xg, T)
%y = matmul(%xc, w, k)
%yb = add(%y, c)
%yc = cast(%yb, T)
%act = gelu(%yc)
%zc = cast(%act, T)
output y: T = %zc
)"},
      {"Y = (tanh(a X) * g + b) W",
       "Dynamic Tanh in place of a norm: DyT transformers (Zhu et al. 2025)",
       R"(program dyt_linear
dims m, k, n
input x: T[m, k] activation
input a: T[] parameter
input g: T[k] parameter
input b: T[k] parameter
input w: T[k, n] parameter
%ax = mul(x, a)
%t = tanh(%ax)
%tg = mul(%t, g)
%tb = add(%tg, b)
%xc = cast(%tb, T)
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)"},
      {"Y = (X / sqrt(mean(X^2) + eps) * (1 + g)) W",
       "every projection after an RMSNorm whose gain is stored as its distance from 1: Gemma, "
       "Qwen3-Next",
       R"(program gemma_rmsnorm_linear
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input g: T[k] parameter
input w: T[k, n] parameter
%sq = square(x)
%ss = sum(%sq, k)
%inv = const(1/k)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%xr = mul(x, %r)
%one = const(1)
%g1 = add(g, %one)
%xg = mul(%xr, %g1)
%xc = cast(%xg, T)
%y = matmul(%xc, w, k)
%yc = cast(%y, T)
output y: T = %yc
)"},
      {"P = X W; Y = P / sqrt(mean_n(P^2) + eps) * g",
       "the norm after a projection: Gemma 2 and 3 (g being 1 + w), OLMo 2",
       R"(program linear_rmsnorm
dims m, k, n
attribute eps = 1e-6
input x: T[m, k] activation
input w: T[k, n] parameter
input g: T[n] parameter
%p = matmul(x, w, k)
%y = cast(%p, T)
%sq = square(%y)
%ss = sum(%sq, n)
%inv = const(1/n)
%ms = mul(%ss, %inv)
%eps = const(eps)
%ve = add(%ms, %eps)
%r = rsqrt(%ve)
%yr = mul(%y, %r)
%yg = mul(%yr, g)
%zc = cast(%yg, T)
output y: T = %zc
)"},
  };
  return texts;
}

}  // namespace tenon::ir
