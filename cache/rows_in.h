// Rows from another database, checked and added (inner header of transfer).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/connection.h"
#include "cache/transfer.h"

namespace tenon::cache {

// Takes rows as for_each_row gives them. Must be used inside one transaction. Throws UserError, a
// clause that says what is wrong with the row, without the place it came from.
class RowsIn {
 public:
  explicit RowsIn(Connection& connection);
  void add(const nlohmann::json& row);
  // New rows by table since the start.
  RowCounts added() const;

 private:
  class Fields;
  std::int64_t id_of(const std::vector<std::int64_t>& ids, std::int64_t rank,
                     const char* what) const;

  Connection& connection_;
  RowCounts before_;
  // Ids by rank; [0] is none.
  std::vector<std::int64_t> workloads_{0}, environments_{0}, mugraphs_{0}, schedules_{0},
      kernels_{0}, plans_{0}, sessions_{0};
};

}  // namespace tenon::cache
