#include "search/sample.h"

#include <array>
#include <random>

#include "ir/error.h"
#include "ir/evaluate.h"

namespace tenon::search {

namespace {

// Primes below 2^31 that are 3 modulo 4, as ir::FieldDomain wants them.
constexpr std::array<std::uint32_t, 2> kPrimes = {2147483647u, 2147483587u};

// Extents of D dims in sample i: a rotation of small pairwise distinct numbers ≥ 2.
ir::Extents extents_of(std::size_t dims, std::size_t sample) {
  ir::Extents extents;
  std::size_t cycle = dims + 1;
  for (std::size_t d = 0; d < dims; ++d)
    extents.push_back(static_cast<std::int64_t>(2 + (d + sample) % cycle));
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
  constexpr int kTries = 20000;  // a program of r rows of roots is defined once in 2^r draws
  const ir::Signature& signature = program.signature;
  std::mt19937_64 random(seed ^ 0x7e4e0a5eed5ULL);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < kPrimes.size(); ++i) {
    ir::Extents extents = extents_of(signature.dims.size(), i);
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
