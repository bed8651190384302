#!/usr/bin/env python3
"""tenon.torch on the host device (tests/python/CMakeLists.txt; a GPU has bench/torch_check.py)."""
import os
import sys
import unittest
import warnings

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed for", sys.executable)
    sys.exit(77)

import torch.nn.functional as F

import tenon
import tenon.torch as tt

K, N = 48, 40


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        tt.set_database(os.environ["TENON_TEST_DB"])
        self.norm = torch.nn.RMSNorm(K, eps=1e-6, dtype=torch.bfloat16)
        torch.nn.init.normal_(self.norm.weight)
        self.linears = [torch.nn.Linear(K, n, bias=False, dtype=torch.bfloat16) for n in (N - 8, 8)]
        self.fused = tt.RMSNormLinear.from_torch(self.norm, *self.linears, max_m=50)

    def right(self, y, x):
        weight = torch.cat([l.weight for l in self.linears]).double()
        xd = x.double()
        want = (xd * torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm.weight.double()) @ weight.T
        error = ((torch.cat(y, -1).double() - want).norm(dim=-1) / want.norm(dim=-1)).max().item()
        self.assertLessEqual(error, 1e-2)

    def draw(self, *shape):
        return torch.randn(*shape, K, dtype=torch.bfloat16)

    @torch.no_grad()
    def test_calls(self):
        for shape in ((1,), (16,), (50,), (2, 3), (51,), ()):
            x = self.draw(*shape)
            self.right(self.fused(x), x)
        self.assertEqual(self.fused.state, "bound")
        self.assertEqual(tt.native_note, "")

    @torch.no_grad()
    def test_weights_that_change(self):
        x = self.draw(4)
        self.right(self.fused(x), x)
        self.linears[0].weight.mul_(-3)
        self.right(self.fused(x), x)
        self.linears[1].weight = torch.nn.Parameter(self.linears[1].weight * 2)
        self.right(self.fused(x), x)
        state = {k: v * 0.5 for k, v in self.fused.state_dict().items()}
        self.fused.load_state_dict(state)
        self.right(self.fused(x), x)

    def test_state_dict_interchanges(self):
        self.assertEqual(self.fused.norm.state_dict().keys(), self.norm.state_dict().keys())
        self.assertEqual(sorted(self.fused.state_dict()), ["linears.0.weight", "linears.1.weight", "norm.weight"])
        one = tt.RMSNormLinear.from_torch(self.norm, self.linears[0])
        self.assertEqual(sorted(one.state_dict()), ["linear.weight", "norm.weight"])

    def test_gradients_take_the_plain_form(self):
        x = self.draw(3).requires_grad_()
        torch.cat(self.fused(x), -1).float().sum().backward()
        self.assertTrue(torch.isfinite(x.grad).all())
        self.assertIsNotNone(self.linears[0].weight.grad)

    def test_compile(self):
        with torch.inference_mode():
            compiled = torch.compile(lambda x: self.fused(x), fullgraph=True, backend="aot_eager")
            for m in (5, 9):
                x = self.draw(m)
                self.right(compiled(x), x)

    def test_operator(self):
        with torch.no_grad():
            x = self.draw(4)
            self.fused(x)
            number = self.fused._number
            torch.library.opcheck(torch.ops.tenon.layer.default, (x, number, N), test_utils=("test_schema", "test_faketensor"))
            for bad in (x.float(), x[:, :-1].contiguous(), x[::2, ::2]):
                with self.assertRaises(RuntimeError):
                    torch.ops.tenon.layer(bad, number, N)
            with self.assertRaises(RuntimeError):
                torch.ops.tenon.layer(x, number, N + 1)
            with self.assertRaises(RuntimeError):
                torch.ops.tenon.layer(x, 65000, N)

    @torch.no_grad()
    def test_untuned_warns_once_and_is_right(self):
        linear = torch.nn.Linear(K, 7, bias=False, dtype=torch.bfloat16)
        fused = tt.RMSNormLinear.from_torch(self.norm, linear)
        x = self.draw(4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = fused(x)
            fused(x)
        self.assertEqual(len(caught), 1)
        self.assertIn("n is 40, not 7", str(caught[0].message))
        self.assertTrue(torch.equal(y, F.linear(F.rms_norm(x, (K,), self.norm.weight, 1e-6), linear.weight)))

    @torch.no_grad()
    def test_tunes_on_first_use(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            tt.set_database(os.path.join(folder, "t.db"))
            tenon.optimize("rmsnorm_linear", {"m": 1, "k": 8, "n": 8}, dtype="bf16", device="host", database=os.path.join(folder, "t.db"), budget=2)
            fused = tt.RMSNormLinear.from_torch(self.norm, *self.linears, max_m=8, tune="first_use", tune_m=(4,), budget="3s")
            x = self.draw(4)
            self.right(fused(x), x)
            self.assertEqual(fused.state, "bound")
            tt.forget_libraries()

    @torch.no_grad()
    def test_gated_mlp(self):
        # 20 columns: the gated program is stored, and rmsnorm_linear at 40. 12: neither.
        for n, program in ((20, "rmsnorm_gated_mlp_in"), (12, None)):
            gate, up = (torch.nn.Linear(K, n, bias=False, dtype=torch.bfloat16) for _ in range(2))
            down = torch.nn.Linear(n, K, bias=False, dtype=torch.bfloat16)
            mlp = tt.RMSNormGatedMLP.from_torch(self.norm, gate, up, down, max_m=16)
            self.assertEqual(sorted(mlp.state_dict()), ["down.weight", "gate.weight", "norm.weight", "up.weight"])
            x = self.draw(5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.same_mlp(mlp, x)
            self.assertEqual(mlp.state, "bound" if program else "plain")
            if program:
                self.assertEqual(mlp._program, program)
                compiled = torch.compile(mlp, fullgraph=True, backend="aot_eager")
                self.assertTrue(torch.equal(compiled(x), mlp(x)))

    def same_mlp(self, mlp, x):
        n = mlp.norm(x)
        want = mlp.down(F.silu(mlp.gate(n)) * mlp.up(n)).float()
        self.assertLessEqual((mlp(x).float() - want).norm() / want.norm(), 2e-2)

    @torch.no_grad()
    def test_gated_mlp_over_the_joined_product(self):
        gate, up = (torch.nn.Linear(K, 30, bias=False, dtype=torch.bfloat16) for _ in range(2))
        down = torch.nn.Linear(30, K, bias=False, dtype=torch.bfloat16)
        mlp = tt.RMSNormGatedMLP.from_torch(self.norm, gate, up, down, max_m=16)
        x = self.draw(5)
        compiled = torch.compile(mlp, fullgraph=True, backend="aot_eager")
        for y in (compiled(x), compiled(x)):  # bound by the first
            self.same_mlp(mlp, x)
            self.assertTrue(torch.equal(y, mlp(x)))
        self.assertEqual((mlp.state, mlp._program), ("bound", "rmsnorm_linear"))

    @torch.no_grad()
    def test_layer_norm(self):
        norm = torch.nn.LayerNorm(K, dtype=torch.bfloat16)
        for p in norm.parameters():
            torch.nn.init.normal_(p)
        linear = torch.nn.Linear(K, N, dtype=torch.bfloat16)
        fused = tt.LayerNormLinear.from_torch(norm, linear, max_m=16)
        x = self.draw(5) + 3
        want = linear(norm(x)).float()
        self.assertLessEqual((fused(x).float() - want).norm() / want.norm(), 2e-2)
        self.assertEqual(fused.state, "bound")
        linear.bias.add_(1)
        self.assertLessEqual((fused(x).float() - want - 1).norm() / want.norm(), 2e-2)

    def natural(self, *widths):
        """A module whose kernel is stored for weights as nn.Linear keeps them: 36 columns."""
        self.linears = [torch.nn.Linear(K, n, bias=False, dtype=torch.bfloat16) for n in widths]
        fused = tt.RMSNormLinear.from_torch(self.norm, *self.linears, max_m=50)
        return (lambda x: (fused(x),)) if len(widths) == 1 else fused, fused

    @torch.no_grad()
    def test_weights_as_linear_keeps_them(self):
        for widths in ((36,), (20, 16)):
            call, fused = self.natural(*widths)
            for m in (1, 4, 50):
                x = self.draw(m)
                self.right(call(x), x)
            self.assertEqual(fused.state, "bound")
            # What is read is the weight itself where there is one.
            for held in fused._bound.values():
                self.assertEqual(held.shape, (36, K))
                self.assertEqual(held.data_ptr() == self.linears[0].weight.data_ptr(), len(widths) == 1)

    @torch.no_grad()
    def test_originals_are_released_and_come_back(self):
        for natural in (False, True):
            call, fused = self.natural(20, 16) if natural else (self.fused, self.fused)
            x, state = self.draw(7), {k: v.clone() for k, v in fused.state_dict().items()}
            y = torch.cat(call(x), -1)
            held = bool(fused._bound)
            freed = fused.release_originals(keep=None)
            self.assertEqual(freed, sum(v.numel() * 2 for k, v in state.items() if k.startswith("linears")))
            self.assertTrue(torch.equal(torch.cat(call(x), -1), y))
            self.assertEqual(fused.release_originals(keep=None), 0)
            compiled = torch.compile(lambda x: fused(x), fullgraph=True, backend="aot_eager")
            self.assertTrue(torch.equal(torch.cat(compiled(x), -1), y))
            if held:  # views of what the kernel reads: nothing is lost
                self.same_state(fused.state_dict(), state)
            else:
                self.assertEqual([l.weight.device.type for l in self.linears], ["meta"] * 2)
                for wrong in (fused.state_dict, torch.nn.Sequential(fused).state_dict, fused.restore_originals, lambda: call(self.draw(51)),
                              lambda: fused.to(torch.float32), lambda: call(x.float())):
                    with self.assertRaisesRegex(tenon.BadInputError, "released"):
                        wrong()
                self.assertTrue(torch.equal(torch.cat(call(x), -1), y))
                with torch.enable_grad(), self.assertRaisesRegex(tenon.BadInputError, "gradients"):
                    call(x)
                # A part of a state dict leaves the rest away, and says so.
                fused.load_state_dict({"linears.0.weight": state["linears.0.weight"]}, strict=False)
                with self.assertRaisesRegex(tenon.BadInputError, "released"):
                    call(x)
            fused.load_state_dict(state)
            self.same_state(fused.state_dict(), state)
            self.assertTrue(torch.equal(torch.cat(call(x), -1), y))
            z = self.draw(51)
            self.right(call(z), z)
            changed = {k: v * 0.5 for k, v in state.items()}
            fused.release_originals(keep=None)
            torch.nn.Sequential(fused).load_state_dict({f"0.{k}": v for k, v in changed.items()})
            self.right(call(x), x)

    def same_state(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            self.assertEqual((one[name].shape, one[name].dtype), (other[name].shape, other[name].dtype))
            self.assertTrue(torch.equal(one[name].cpu(), other[name].cpu()), name)

    @torch.no_grad()
    def test_originals_kept_on_the_host(self):
        # Here they are there already: nothing is freed, everything goes on.
        x, state = self.draw(7), {k: v.clone() for k, v in self.fused.state_dict().items()}
        y = torch.cat(self.fused(x), -1)
        bound = bool(self.fused._bound)
        freed = self.fused.release_originals()
        self.assertEqual(freed > 0, bound)
        self.same_state(self.fused.state_dict(), state)
        self.assertTrue(torch.equal(torch.cat(self.fused(x), -1), y))
        self.fused.restore_originals()
        self.assertTrue(torch.equal(torch.cat(self.fused(x), -1), y))
        with self.assertRaisesRegex(tenon.BadInputError, "'disk'"):
            self.fused.release_originals(keep="disk")

    @torch.no_grad()
    def test_a_released_tensor_that_something_else_holds_lives_on(self):
        self.fused.bind()
        held = [l.weight for l in self.linears]
        values = [w.clone() for w in held]
        self.fused.release_originals(keep=None)
        for weight, value in zip(held, values):
            self.assertTrue(torch.equal(weight, value))

    @torch.no_grad()
    def test_weights_become_views_of_a_copy_that_the_kernel_reads(self):
        from tenon.torch._release import adopt_views
        state = {k: v.clone() for k, v in self.fused.state_dict().items()}
        # [n, k] as a joined copy is, and as a transposed one is seen.
        for held in (torch.cat([l.weight for l in self.linears]), torch.cat([l.weight for l in self.linears]).t().contiguous().t()):
            self.assertEqual(adopt_views(self.linears, held), 2 * N * K)
            self.assertEqual(adopt_views(self.linears, held), 0)
            self.same_state(self.fused.state_dict(), state)
            self.assertEqual(self.linears[1].weight.data_ptr(), held[N - 8:].data_ptr())
            x = self.draw(6)
            self.right(self.fused(x), x)
        self.linears[1].weight.mul_(2)
        self.right(self.fused(x), x)
        self.fused.load_state_dict(state)
        self.right(self.fused(x), x)

    @torch.no_grad()
    def test_gated_mlp_without_its_originals(self):
        gate, up = (torch.nn.Linear(K, 20, bias=False, dtype=torch.bfloat16) for _ in range(2))
        down = torch.nn.Linear(20, K, bias=False, dtype=torch.bfloat16)
        mlp = tt.RMSNormGatedMLP.from_torch(self.norm, gate, up, down, max_m=16)
        x, state = self.draw(5), {k: v.clone() for k, v in mlp.state_dict().items()}
        y = mlp(x)
        mlp.release_originals(keep=None)
        self.assertTrue(torch.equal(mlp(x), y))
        mlp.load_state_dict(state)
        self.assertTrue(torch.equal(mlp(x), y))
        self.same_mlp(mlp, x)

    @torch.no_grad()
    def test_nothing_is_released_where_nothing_is_stored(self):
        fused = tt.RMSNormLinear.from_torch(self.norm, torch.nn.Linear(K, 9, bias=False, dtype=torch.bfloat16))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaisesRegex(tenon.BadInputError, "no kernel is stored"):
                fused.release_originals()
        self.assertEqual(fused.linear.weight.device.type, "cpu")

    def test_refuses(self):
        biased = torch.nn.Linear(K, 4, dtype=torch.bfloat16)
        for call in (lambda: tt.RMSNormLinear.from_torch(self.norm, biased), lambda: tt.RMSNormLinear.from_torch(self.norm),
                     lambda: tt.RMSNormLinear.from_torch(self.norm, self.linears[0], tune="never")):
            with self.assertRaises(tenon.BadInputError):
                call()


if __name__ == "__main__":
    unittest.main(verbosity=2)
