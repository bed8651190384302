// Why a query found nothing: what is nearest, and in what it differs.
#pragma once

#include <string>

#include "cache/connection.h"
#include "cache/database.h"

namespace tenon::cache {

// One sentence without a full stop. Slower than a lookup: it reads all plans of the workload.
std::string explain_miss(Connection& connection, const Query& query);

}  // namespace tenon::cache
