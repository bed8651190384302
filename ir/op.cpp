#include "ir/op.h"

#include "ir/error.h"

namespace tenon::ir {
namespace {

constexpr OpInfo kTable[] = {
#define TENON_OP(kind, name, arity, cls, commutative, cuda) \
  {OpKind::kind, name, arity, OpClass::cls, commutative, cuda},
#include "ir/operators.def"
#undef TENON_OP
};

}  // namespace

const OpInfo& info(OpKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  TENON_CHECK(index < std::size(kTable), "an operator without a row in operators.def");
  return kTable[index];
}

std::optional<OpKind> op_from_name(std::string_view name) {
  for (const OpInfo& row : kTable) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

bool is_function(OpKind kind) {
  switch (kind) {
    case OpKind::kExp:
    case OpKind::kTanh:
    case OpKind::kErf:
    case OpKind::kSigmoid:
    case OpKind::kSilu:
    case OpKind::kGelu:
    case OpKind::kGeluTanh:
      return true;
    default:
      return false;
  }
}

}  // namespace tenon::ir
