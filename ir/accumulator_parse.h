// Accumulators in the text form. Internal to ir/.
#pragma once

#include "ir/graph_text.h"
#include "ir/mugraph.h"

namespace tenon::ir {

inline constexpr std::size_t kMaxStates = 64;  // also of operands and of results

// "sum(%0, k)", "matmul(x, w, k)" or "custom over k (x) { … }": what follows the word accumulate
// and an index. Operands are values of `body`, looked up in `scope`.
Accumulator parse_accumulator(TextLexer& lexer, const Signature& signature, const Graph& body,
                              const Scope& scope);

}  // namespace tenon::ir
