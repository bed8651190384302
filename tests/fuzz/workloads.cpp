// Lists of workloads, as JSON or CSV.
#include "optimizer/workloads.h"

#include <cstdint>
#include <string>

#include "ir/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    tenon::optimizer::parse_workloads(text, tenon::ir::catalog_program, "rmsnorm_linear");
  } catch (const tenon::UserError&) {
  }
  return 0;
}
