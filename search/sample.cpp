#include "search/sample.h"

#include <algorithm>
#include <array>
#include <random>

#include "ir/error.h"
#include "ir/evaluate.h"

namespace tenon::search {

namespace {

// Primes below 2^31 that are 3 modulo 4, as ir::FieldDomain wants them.
constexpr std::array<std::uint32_t, 2> kPrimes = {2147483647u, 2147483587u};

// Dims of what the program takes roots of. A point is defined with probability one half for each
// element under a root, so these dims are the smallest.
std::vector<bool> root_dims(const ir::Program& program) {
  std::vector<bool> root(program.signature.dims.size(), false);
  for (const ir::Node& node : program.graph.nodes())
    if (node.op == ir::OpKind::kSqrt || node.op == ir::OpKind::kRsqrt)
      for (const ir::Axis& axis : node.axes) root[axis.dim] = true;
  return root;
}

// Small pairwise distinct extents ≥ 2, other ones for each dim in either sample.
ir::Extents extents_of(const std::vector<bool>& root, std::size_t sample) {
  std::size_t roots = static_cast<std::size_t>(std::count(root.begin(), root.end(), true));
  std::size_t first_cycle = std::max<std::size_t>(roots, 2);
  std::size_t second_cycle = root.size() - roots + 1;
  std::size_t firsts = 0;
  std::size_t seconds = 0;
  ir::Extents extents;
  for (bool r : root)
    extents.push_back(
        static_cast<std::int64_t>(r ? 2 + (firsts++ + sample) % first_cycle
                                    : 2 + first_cycle + (seconds++ + sample) % second_cycle));
  return extents;
}

std::uint32_t draw(std::mt19937_64& random, std::uint32_t prime) {
  return static_cast<std::uint32_t>(1 + random() % (prime - 1));
}

FieldValues draw_tensor(const ir::Axes& axes, const ir::Extents& extents, std::uint32_t prime,
                        std::mt19937_64& random) {
  FieldValues v{axes, {}, {}};
  std::int64_t count = 1;
  for (const ir::Axis& axis : axes) {
    v.extents.push_back(extents[axis.dim]);
    count *= extents[axis.dim];
  }
  for (std::int64_t i = 0; i < count; ++i) v.data.push_back(draw(random, prime));
  return v;
}

}  // namespace

std::vector<Sample> make_samples(const ir::Program& program, std::uint64_t seed) {
  constexpr int kTries = 100000;  // with r elements under roots one in 2^r draws is defined
  const ir::Signature& signature = program.signature;
  std::mt19937_64 random(seed ^ 0x7e4e0a5eed5ULL);
  std::vector<bool> root = root_dims(program);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < kPrimes.size(); ++i) {
    ir::Extents extents = extents_of(root, i);
    bool found = false;
    for (int attempt = 0; attempt < kTries && !found; ++attempt) {
      std::map<std::string, std::uint32_t> attributes;
      for (const auto& [name, value] : signature.attributes)
        attributes[name] = draw(random, kPrimes[i]);
      ir::FieldDomain domain(kPrimes[i], std::move(attributes));
      std::vector<FieldValues> inputs;
      for (const ir::ProgramInput& in : signature.inputs)
        inputs.push_back(draw_tensor(in.axes, extents, kPrimes[i], random));
      try {
        std::vector<FieldValues> outputs = ir::evaluate(program, extents, domain, inputs);
        samples.push_back({extents, domain, std::move(inputs), std::move(outputs)});
        found = true;
      } catch (const ir::Undefined&) {
        // Another draw.
      }
    }
    if (!found)
      throw UserError("program", signature.program,
                      "a program that is defined at some random point of a prime field");
  }
  return samples;
}

std::optional<FieldValues> apply(const ir::Graph& one_node, const Sample& sample,
                                 std::vector<FieldValues> operands) {
  ir::FieldDomain domain = sample.domain;
  try {
    return std::move(
        ir::evaluate_graph(one_node, sample.extents, domain, std::move(operands)).back());
  } catch (const ir::Undefined&) {
    return std::nullopt;
  }
}

}  // namespace tenon::search
