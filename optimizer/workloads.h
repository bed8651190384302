// Lists of workloads, as JSON or CSV: what `tenon optimize --workloads` reads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/workload.h"

namespace tenon::optimizer {

// The program of a name or, where that is allowed, of a file. Throws UserError.
using LoadProgram = std::function<ir::Program(const std::string&)>;

// JSON: an array of objects, or an object whose "workloads" is one. CSV: a first line that names
// the columns. An entry has a `program` (or the list's one, `program`, where it has none), an
// extent for each of its dims, and may have a `dtype` (bf16) and the program's attributes; `name`,
// `note` and `count` are passed over. In JSON dims and attributes may also stand in objects of
// these names. The text is untrusted. Throws UserError that names the entry and what is wrong with
// it.
std::vector<ir::Workload> parse_workloads(const std::string& text, const LoadProgram& load,
                                          const std::string& program = "");

}  // namespace tenon::optimizer
