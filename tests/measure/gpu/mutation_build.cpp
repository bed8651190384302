#include "mutation_build.h"

#include <map>
#include <stdexcept>

#include "cubin_text.h"
#include "gpu.h"
#include "ir/schedule.h"

namespace tenon::test {

namespace {

// The kernels of a module that the plan launches.
std::vector<std::string> launched_of(const ir::LaunchPlan& plan, std::size_t module) {
  std::vector<std::string> entries;
  for (const auto* launches : {&plan.prepare, &plan.main})
    for (const ir::Launch& launch : *launches)
      if (launch.kind == ir::LaunchKind::kCubin && launch.module == static_cast<int>(module))
        entries.push_back(launch.entry);
  return entries;
}

void put(measure::Candidate& candidate, std::size_t module, const codegen::Compiled& compiled) {
  if (!compiled.ok) throw std::runtime_error(compiled.log);
  candidate.plan.modules[module].cubin_sha256 = compiled.sha256;
  candidate.cubins[module] = compiled.cubin;
}

}  // namespace

BuiltCase build(const MutationCase& c, const ir::Target& target) {
  BuiltCase built;
  built.mutation_case = &c;
  built.target = target;
  codegen::Generated generated = codegen::generate(
      embedded_fixture(c.fixture), ir::parse_schedule(c.schedule), workload_of(c), target);
  built.right.plan = generated.plan;
  built.right.cubins.resize(generated.sources.size());
  for (std::size_t i = 0; i < generated.sources.size(); ++i) {
    built.sources.push_back({flatten(generated.sources[i].text), generated.sources[i].entries});
    built.launched.push_back(launched_of(generated.plan, i));
    put(built.right, i, codegen::compile(built.sources[i], target));
  }
  return built;
}

std::vector<BuiltMutant> build_mutants(const BuiltCase& built, std::size_t wanted,
                                       std::size_t start, std::set<std::string>& used,
                                       std::size_t at_once) {
  struct Place {
    SourceMutant mutant;
    std::size_t module;
  };
  // Of all modules, so that each has its share by how much there is to edit.
  std::vector<SourceMutant> all;
  std::map<std::string, std::size_t> module_of;  // by the text
  for (std::size_t i = 0; i < built.sources.size(); ++i) {
    if (built.launched[i].empty()) continue;
    for (SourceMutant& m : source_mutants(built.sources[i].text)) {
      if (used.count(m.place + m.edit)) continue;
      module_of.emplace(m.text, i);
      all.push_back(std::move(m));
    }
  }
  std::vector<Place> places;
  for (SourceMutant& m : spread(all, 32 * wanted, start)) places.push_back({std::move(m), 0});
  for (Place& p : places) p.module = module_of.at(p.mutant.text);

  std::vector<std::string> originals;
  for (std::size_t i = 0; i < built.sources.size(); ++i)
    originals.push_back(
        built.launched[i].empty() ? "" : cubin_text(built.right.cubins[i], built.launched[i]));
  std::vector<BuiltMutant> out;
  std::set<std::string> seen;
  const std::size_t batch = std::max(at_once, wanted);
  for (std::size_t first = 0; first < places.size() && out.size() < wanted; first += batch) {
    const std::size_t count = std::min(batch, places.size() - first);
    std::vector<codegen::Compiled> compiled(count);
    in_parallel(count, at_once, [&](std::size_t i) {
      const Place& p = places[first + i];
      compiled[i] =
          codegen::compile({p.mutant.text, built.sources[p.module].entries}, built.target);
    });
    for (std::size_t i = 0; i < count && out.size() < wanted; ++i) {
      const Place& p = places[first + i];
      if (!compiled[i].ok) continue;
      const std::string text = cubin_text(compiled[i].cubin, built.launched[p.module]);
      if (text == originals[p.module] || !seen.insert(text).second) continue;
      BuiltMutant mutant{p.mutant, p.module, built.right};
      put(mutant.wrong, p.module, compiled[i]);
      used.insert(p.mutant.place + p.mutant.edit);
      out.push_back(std::move(mutant));
    }
  }
  return out;
}

std::optional<BuiltMutant> build_same(const BuiltCase& other, const SourceMutant& mutant) {
  for (std::size_t i = 0; i < other.sources.size(); ++i) {
    if (other.launched[i].empty()) continue;
    const std::optional<SourceMutant> same = same_edit(other.sources[i].text, mutant);
    if (!same) continue;
    const codegen::Compiled compiled =
        codegen::compile({same->text, other.sources[i].entries}, other.target);
    if (!compiled.ok || cubin_text(compiled.cubin, other.launched[i]) ==
                            cubin_text(other.right.cubins[i], other.launched[i]))
      continue;
    BuiltMutant built{*same, i, other.right};
    put(built.wrong, i, compiled);
    return built;
  }
  return std::nullopt;
}

measure::Candidate build_delayed(const BuiltCase& built, Delay delay) {
  measure::Candidate candidate = built.right;
  for (std::size_t i = 0; i < built.sources.size(); ++i)
    put(candidate, i,
        codegen::compile({delayed(built.sources[i].text, delay), built.sources[i].entries},
                         built.target));
  return candidate;
}

measure::Candidate build_delayed(const BuiltCase& built, const BuiltMutant& mutant, Delay delay) {
  measure::Candidate candidate = build_delayed(built, delay);
  put(candidate, mutant.module,
      codegen::compile({delayed(mutant.mutant.text, delay), built.sources[mutant.module].entries},
                       built.target));
  return candidate;
}

}  // namespace tenon::test
