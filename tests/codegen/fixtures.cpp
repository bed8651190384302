#include "fixtures.h"

#include <fstream>
#include <sstream>

#include "ir/error.h"

namespace tenon::codegen::testing {

namespace {

std::string read(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw UserError("fixture", path, "a file that exists");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

}  // namespace

const std::vector<std::string>& fixture_names() {
  static const std::vector<std::string> names = {"rmsnorm_unfused",
                                                 "rmsnorm_gamma_folded",
                                                 "rmsnorm_deferred_scale",
                                                 "rmsnorm_one_pass",
                                                 "rmsnorm_prologue",
                                                 "rmsnorm_split_k",
                                                 "gamma_on_weights",
                                                 "gamma_on_activations",
                                                 "no_loop",
                                                 "product_first",
                                                 "split_statistics",
                                                 "layernorm_two_phases",
                                                 "layernorm_norm_kernel",
                                                 "layernorm_folded",
                                                 "gated",
                                                 "transposed",
                                                 "two_weights"};
  return names;
}

Fixture fixture(const std::string& name) {
  const std::string ir = TENON_IR_FIXTURES, own = TENON_CODEGEN_FIXTURES;
  Fixture f;
  f.name = name;
  f.graph =
      ir::parse_mugraph(read((starts_with(name, "rmsnorm_") ? ir : own) + "/" + name + ".mugraph"));
  ir::validate(f.graph);
  const std::string& program = f.graph.signature.program;
  if (program == "rmsnorm_linear")
    f.program = ir::catalog_program(program);
  else
    f.program = ir::parse_program(
        read((program == "layernorm_linear" ? ir : own) + "/" + program + ".program"));
  return f;
}

ir::Workload workload(const Fixture& fixture, std::int64_t m, std::int64_t k, std::int64_t n,
                      ir::DType dtype) {
  const std::map<std::string, std::int64_t> extents = {{"m", m}, {"k", k}, {"n", n}, {"l", 48}};
  std::map<std::string, std::int64_t> dims;
  for (const std::string& dim : fixture.program.signature.dims) dims[dim] = extents.at(dim);
  return ir::make_workload(fixture.program, dims, dtype);
}

ir::Schedule default_schedule(const Fixture& fixture, const ir::Workload& workload,
                              const ir::Target& target) {
  ir::Schedule schedule;
  for (std::size_t i = 0; i < fixture.graph.kernels.size(); ++i)
    schedule.kernels.push_back(ir::default_schedule(ir::view(fixture.graph, i), workload, target));
  return schedule;
}

ir::MuGraph rmsnorm_graph(const std::string& kernels) {
  return ir::parse_mugraph(
      "mugraph rmsnorm_linear\n"
      "dims m, k, n\n"
      "attribute eps = 1e-6\n"
      "input x: T[m, k] activation\n"
      "input g: T[k] parameter\n"
      "input w: T[k, n] parameter\n"
      "output y: T[m, n]\n" +
      kernels);
}

}  // namespace tenon::codegen::testing
