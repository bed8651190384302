// The interface over one connection: a lock, a transaction and translated errors around each call.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "cache/database.h"
#include "cache/explain_miss.h"
#include "cache/list.h"
#include "cache/open.h"
#include "cache/read_rows.h"
#include "cache/select.h"
#include "cache/store.h"
#include "ir/error.h"

namespace tenon::cache {
namespace {

// Plans that were passed over and are named; of the others only the number is said.
constexpr std::size_t kSaid = 3;

class SqliteDatabase final : public Database {
 public:
  using Database::list;
  explicit SqliteDatabase(std::unique_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  const std::string& path() const override { return connection_->path(); }

  std::int64_t put(const WorkloadRow& row) override { return put_row(row); }
  std::int64_t put(const EnvironmentRow& row) override { return put_row(row); }
  std::int64_t put(const MuGraphRow& row) override { return put_row(row); }
  std::int64_t put(const ScheduleRow& row) override { return put_row(row); }
  std::int64_t put(const EvidenceRow& row) override { return put_row(row); }
  std::int64_t put(const KernelRow& row) override { return put_row(row); }
  std::int64_t put(const PlanRow& row) override { return put_row(row); }
  std::int64_t put(const MeasurementRow& row) override { return put_row(row); }
  std::int64_t put(const SessionRow& row) override { return put_row(row); }

  void finish_session(std::int64_t id, const std::string& stop_reason,
                      const std::string& counters_json) override {
    transaction([&] { cache::finish_session(*connection_, id, stop_reason, counters_json); });
  }

  void set_session_reference(std::int64_t id, double reference_time_us) override {
    transaction([&] { cache::set_session_reference(*connection_, id, reference_time_us); });
  }

  std::optional<SessionRow> unfinished_session(std::int64_t workload, std::int64_t environment,
                                               const std::string& options_json) override {
    return reading(
        [&] { return read_unfinished(*connection_, workload, environment, options_json); });
  }

  void resume_session(std::int64_t id, const std::string& owner) override {
    transaction([&] { cache::resume_session(*connection_, id, owner); });
  }

  std::vector<MeasurementRow> measurements_of(std::int64_t session) override {
    return reading([&] { return read_measurements(*connection_, session); });
  }

  void retract(std::int64_t session, std::int64_t plan) override {
    transaction([&] { cache::retract(*connection_, session, plan); });
  }

  void transaction(const std::function<void()>& body) override {
    guarded([&] { connection_->transaction(body); });
  }

  std::optional<Stored> best(const Query& query, std::string* why) override {
    std::lock_guard lock(mutex_);
    std::string ignored;
    std::string& reason = why != nullptr ? *why : ignored;
    reason.clear();
    try {
      std::optional<Stored> stored;
      connection_->snapshot([&] {
        std::vector<std::string> passed_over;
        stored = select_best(*connection_, query, passed_over);
        if (stored) {
          reason = stored->note;
        } else if (passed_over.empty() && why != nullptr) {
          reason = explain_miss(*connection_, query);
        }
        for (std::size_t i = 0; i < std::min(passed_over.size(), kSaid); ++i)
          reason += (reason.empty() ? "" : "; ") + passed_over[i];
        if (passed_over.size() > kSaid)
          reason += fmt::format("; so were {} others", passed_over.size() - kSaid);
        if (!stored) return;
        stored->note = reason;
        stored->passed_over = static_cast<int>(passed_over.size());
      });
      return stored;
    } catch (const SQLite::Exception& error) {
      // On the hot path a damaged or locked file is a miss.
      reason = fmt::format("database '{}' cannot be read: {}", path(), error.what());
      return std::nullopt;
    }
  }

  std::vector<TunedInterval> tuned(const Query& query) override {
    std::lock_guard lock(mutex_);
    try {
      std::vector<TunedInterval> intervals;
      connection_->snapshot([&] { intervals = select_tuned(*connection_, query); });
      return intervals;
    } catch (const SQLite::Exception&) {
      return {};  // a miss, which `best` explains
    }
  }

  std::optional<Stored> by_plan(std::int64_t plan_id) override {
    return reading([&] { return select_plan(*connection_, plan_id); });
  }

  std::vector<Listing> list(Which which, std::int64_t of) override {
    return reading([&] { return list_plans(*connection_, which, of); });
  }

  std::vector<std::pair<std::string, std::int64_t>> table_counts() override {
    return reading([&] { return count_tables(*connection_); });
  }

  std::vector<std::string> check(const Damage& damage) override {
    std::lock_guard lock(mutex_);
    try {
      std::vector<std::string> problems;
      connection_->snapshot([&] { problems = check_contents(*connection_, damage); });
      return problems;
    } catch (const SQLite::Exception& error) {
      // The damage can be such that the checks themselves do not get through.
      if (!is_corruption(error)) throw_translated(path(), error);
      return {fmt::format("integrity: {}", error.what())};
    }
  }

 private:
  template <class Body>
  auto guarded(const Body& body) -> decltype(body()) {
    std::lock_guard lock(mutex_);
    try {
      return body();
    } catch (const SQLite::Exception& error) {
      throw_translated(path(), error);
    }
  }

  template <class Body>
  auto reading(const Body& body) -> decltype(body()) {
    return guarded([&] {
      decltype(body()) result;
      connection_->snapshot([&] { result = body(); });
      return result;
    });
  }

  template <class Row>
  std::int64_t put_row(const Row& row) {
    std::int64_t id = 0;
    transaction([&] { id = store(*connection_, row); });
    return id;
  }

  std::unique_ptr<Connection> connection_;
  // Recursive: the body of a transaction calls the other methods.
  std::recursive_mutex mutex_;
};

}  // namespace

std::unique_ptr<Database> Database::open(const std::string& path, bool read_only) {
  return std::make_unique<SqliteDatabase>(open_connection(path, read_only));
}

std::unique_ptr<Database> Database::open_packed(std::string_view bytes, const std::string& name) {
  return std::make_unique<SqliteDatabase>(open_packed_connection(bytes, name));
}

}  // namespace tenon::cache
