// The three kinds of failure Tenon distinguishes. What a user can mend is a
// UserError; what the machine lacks is a DeviceError; anything else is a bug.
#pragma once

#include <stdexcept>
#include <string>

namespace tenon {

// Bad usage or input (exit code 2). The message is one sentence that names the
// argument, its value and what is accepted.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
  UserError(const std::string& argument, const std::string& value, const std::string& accepted)
      : std::runtime_error(argument + " is '" + value + "'; accepted: " + accepted) {}
};

// A device, driver or toolchain is missing or failed (exit code 3).
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A broken invariant of Tenon itself. No input may raise it; tests assert so.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}

}  // namespace tenon

// Internal invariant; throws InternalError, in every build type.
#define TENON_CHECK(condition, message)                                                         \
  do {                                                                                          \
    if (!(condition)) ::tenon::detail::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
