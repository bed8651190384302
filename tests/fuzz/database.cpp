// A database file from anywhere: opened, asked, listed, checked; and as a packed one in memory.
#include "cache/database.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "cache/report_rows.h"
#include "ir/error.h"

namespace {

using namespace tenon;

void use(cache::Database& database) {
  std::string why;
  cache::Query query;
  query.include_estimated = true;
  query.m = 16;
  query.device_class = "sm_90a";
  query.workload_key =
      R"({"attributes":{"eps":1e-06},"dims":{"k":576,"n":960},"dtype":"bf16","program":"rmsnorm_linear","program_id":"df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85"})";
  database.best(query, &why);
  for (std::int64_t plan = 1; plan < 4; ++plan) database.by_plan(plan);
  database.list(cache::Database::Which::kFirst);
  database.table_counts();
  database.check();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string file = "/dev/shm/tenon-fuzz-" + std::to_string(getpid()) + ".db";
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    use(*cache::Database::open(file, true));
    cache::report_entries(file);
  } catch (const UserError&) {
  }
  try {
    use(*cache::Database::open_packed(bytes, "fuzzed"));
  } catch (const UserError&) {
  }
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) std::remove((file + suffix).c_str());
  return 0;
}
