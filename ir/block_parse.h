// Block graphs in the text form. Internal to ir/.
#pragma once

#include <string>

#include "ir/mugraph_names.h"

namespace tenon::ir {

// "{ grid … store … }" of the kernel `kernel`. Tensors that it declares are added to `graph`
// through `tensors`; where its loads and stores stand is added to `places`.
BlockGraph parse_block(TextLexer& lexer, const MuGraph& graph, TensorTable& tensors, Places& places,
                       const std::string& kernel);

}  // namespace tenon::ir
