// What is wrong with a program, and where. Internal to ir/.
#pragma once

#include <optional>
#include <string>

#include "ir/program.h"

namespace tenon::ir {

struct ProgramProblem {
  enum class Where { kProgram, kDim, kInput, kAttribute, kOutput, kNode };
  Where where = Where::kProgram;
  std::size_t index = 0;  // of the dim, input, output or node
  std::string name;       // of the attribute
  std::string message;    // one sentence
};

std::optional<ProgramProblem> find_problem(const Program& program);

}  // namespace tenon::ir
