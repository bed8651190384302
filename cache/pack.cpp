#include "cache/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include "cache/open.h"
#include "cache/read_rows.h"
#include "ir/error.h"

namespace tenon::cache {
namespace {

// What is copied, in the order of references. Ids stay as they are. What a lookup does not read is
// emptied.
constexpr const char* kCopy = R"sql(
INSERT INTO main.workload SELECT * FROM source.workload
  WHERE id IN (SELECT workload FROM source.plan WHERE id IN kept);
INSERT INTO main.mugraph SELECT * FROM source.mugraph
  WHERE id IN (SELECT mugraph FROM source.plan WHERE id IN kept);
INSERT INTO main.schedule SELECT * FROM source.schedule
  WHERE id IN (SELECT schedule FROM source.plan WHERE id IN kept);
INSERT INTO main.kernel (id, source_sha256, source, options, target, nvrtc, cubin, cubin_sha256,
    resources, registers, shared_bytes, spill_bytes, compile_seconds, status, log)
  SELECT id, source_sha256, '', options, target, nvrtc, cubin, cubin_sha256,
    resources, registers, shared_bytes, spill_bytes, compile_seconds, status, ''
  FROM source.kernel WHERE id IN (SELECT kernel FROM source.plan_kernel WHERE plan IN kept);
INSERT INTO main.plan SELECT * FROM source.plan WHERE id IN kept;
INSERT INTO main.plan_kernel SELECT * FROM source.plan_kernel WHERE plan IN kept;
INSERT INTO main.evidence (id, mugraph, plan, program_sha256, method, verdict, reason, figures,
    counterexample, seconds, created)
  SELECT max(id), mugraph, plan, program_sha256, method, verdict, reason, '{}', '', seconds, created
  FROM source.evidence WHERE plan IN kept OR (plan IS NULL AND mugraph IN
    (SELECT mugraph FROM source.plan WHERE id IN kept))
  GROUP BY mugraph, plan, program_sha256, method, verdict;
INSERT INTO main.environment SELECT * FROM source.environment
  WHERE id IN (SELECT environment FROM source.newest WHERE plan IN kept);
INSERT OR IGNORE INTO main.environment SELECT * FROM source.environment WHERE id IN
  (SELECT environment FROM source.session WHERE id IN
    (SELECT session FROM source.newest WHERE plan IN kept));
INSERT INTO main.session (id, workload, environment, options, seed, stop_reason, counters,
    reference_us, started, ended, owner)
  SELECT id, workload, environment, '{}', seed, stop_reason, '{}', reference_us, started, ended, ''
  FROM source.session WHERE id IN (SELECT session FROM source.newest WHERE plan IN kept);
INSERT INTO main.measurement SELECT * FROM source.measurement
  WHERE id IN (SELECT id FROM source.newest WHERE plan IN kept);
INSERT INTO main.info (name, value) VALUES ('pack', '1');
)sql";

constexpr const char* kKeep = R"sql(
CREATE TEMP TABLE kept (plan INTEGER PRIMARY KEY);
INSERT INTO kept SELECT plan FROM source.best;
)sql";

// What may be launched, of each workload, class and mode the fastest first.
constexpr const char* kServing = R"sql(
SELECT p.workload, p.device_class, p.dependent_launch, p.id, p.uses_library
  FROM source.plan p JOIN source.newest n ON n.plan = p.id
  WHERE p.checked = 1 AND n.kind = 'measured' AND n.decides = 1
    AND n.status = 'ok' AND n.time_us > 0 AND n.time_us < 1e300
    AND p.id IN (SELECT plan FROM source.usable)
  ORDER BY p.workload, p.device_class, p.dependent_launch, n.time_us, n.id
)sql";

// Keeps, beside the winners, the fastest for every lookup that refuses some of them: a plan stays
// unless a faster one is refused for no other reason than it.
void keep_alternatives(Connection& source, Connection& target,
                       const std::vector<Refusal>& refusals) {
  struct Serving {
    std::int64_t plan;
    bool library;
  };
  std::map<std::tuple<std::int64_t, std::string, std::int64_t>, std::vector<Serving>> places;
  {
    Rows rows(target, kServing);
    while (rows.next())
      places[{rows.integer(0), rows.text(1), rows.integer(2)}].push_back(
          {rows.integer(3), rows.integer(4) != 0});
  }
  for (const auto& [place, serving] : places) {
    std::vector<unsigned> kept;  // reasons, one bit each, of the plans that stay
    for (const Serving& s : serving) {
      unsigned reasons = s.library ? 1 : 0;
      const Stored stored = read_stored(source, s.plan, 0);
      for (std::size_t i = 0; i < refusals.size(); ++i)
        if (!refusals[i](stored).empty()) reasons |= 2u << i;
      const bool dominated = std::any_of(kept.begin(), kept.end(), [reasons](unsigned faster) {
        return (faster & ~reasons) == 0;
      });
      if (!dominated) {
        kept.push_back(reasons);
        Rows(target, "INSERT OR IGNORE INTO kept VALUES (?)", s.plan).run();
      }
      if (reasons == 0) break;  // nobody refuses it
    }
  }
}

struct RemoveFile {
  const std::string& name;
  ~RemoveFile() {
    for (const char* suffix : {"", "-journal"}) std::remove((name + suffix).c_str());
  }
};

// Takes out of `kept` what would not be used anyway.
void leave_out_damaged(Connection& source, Connection& target, PackSummary& summary) {
  std::vector<std::int64_t> plans;
  {
    Rows rows(target, "SELECT plan FROM kept ORDER BY plan");
    while (rows.next()) plans.push_back(rows.integer(0));
  }
  for (std::int64_t plan : plans) {
    std::string problem = checksum_problem(read_stored(source, plan, 0));
    if (problem.empty()) continue;
    summary.left_out.push_back(fmt::format("plan {} is left out: {}", plan, problem));
    Rows(target, "DELETE FROM kept WHERE plan = ?", plan).run();
  }
  summary.plans = static_cast<std::int64_t>(plans.size() - summary.left_out.size());
}

}  // namespace

PackSummary pack_database(const std::string& source, const std::string& target,
                          const std::vector<Refusal>& refusals) {
  PackSummary summary;
  std::error_code ignored;
  if (std::filesystem::equivalent(source, target, ignored))
    throw UserError(fmt::format("cannot pack '{}' onto itself; name another file", source));
  auto from = open_connection(source, true);
  const std::string fresh = fmt::format("{}.new-{}", target, getpid());
  RemoveFile remove{fresh};
  try {
    Connection to(fresh, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_URI, target);
    migrate(to);
    SQLite::Statement attach(to.database(), "ATTACH ? AS source");
    attach.bind(1, reading_uri(source));
    attach.exec();
    to.transaction([&] {
      to.database().exec(kKeep);
      keep_alternatives(*from, to, refusals);
      leave_out_damaged(*from, to, summary);
      to.database().exec(kCopy);
    });
    to.database().exec("DETACH source");
    to.database().exec("VACUUM");
  } catch (const SQLite::Exception& error) {
    throw_translated(target, error);
  }
  if (rename(fresh.c_str(), target.c_str()) != 0)
    throw UserError(fmt::format("cannot write '{}': {}", target, std::strerror(errno)));
  summary.bytes = static_cast<std::int64_t>(std::filesystem::file_size(target));
  return summary;
}

}  // namespace tenon::cache
