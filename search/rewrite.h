// The algebra of the operator table: which expressions are equal to a program's.
//
// Rewriting works on the classes of search/expression.h until nothing new appears (equality
// saturation). Every law is generic algebra over the table and names no program; each result
// is confirmed at the random points, so that a wrong law is an InternalError, never a wrong
// µGraph.
#pragma once

#include <string>
#include <vector>

#include "search/expression.h"

namespace tenon::search {

struct Law {
  std::string name;
  std::string statement;
};
// The laws, in the order of their application.
const std::vector<Law>& laws();

struct Saturation {
  bool cut_off = false;  // max_classes stopped it
  int rounds = 0;
};

// Adds to `table` all that the laws make of its outputs, at most `max_classes` classes.
Saturation saturate(ExpressionTable& table, int max_classes);

// Classes that occur in some expression equal to an output, by ClassId.
std::vector<bool> reachable(const ExpressionTable& table);

}  // namespace tenon::search
