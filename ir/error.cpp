#include "ir/error.h"

namespace tenon::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + condition + ": " +
                      message);
}

}  // namespace tenon::detail
