// The text forms: programs, µGraphs, schedules, launch plans. What parses prints and parses again
// to the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ir/error.h"
#include "ir/mugraph.h"
#include "ir/plan.h"
#include "ir/program.h"
#include "ir/schedule.h"

namespace {

using namespace tenon;

template <class Parse>
void round_trip(const std::string& text, const Parse& parse) {
  std::string printed;
  try {
    printed = ir::print(parse(text));
  } catch (const UserError&) {
    return;
  }
  // Past here nothing may be refused.
  if (ir::print(parse(printed)) != printed) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  round_trip(text, [](const std::string& t) { return ir::parse_program(t); });
  round_trip(text, [](const std::string& t) { return ir::parse_mugraph(t); });
  round_trip(text, [](const std::string& t) { return ir::parse_schedule(t); });
  round_trip(text, [](const std::string& t) { return ir::parse_plan(t); });
  return 0;
}
