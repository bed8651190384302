// With TENON_QUICK_BUILD the other files call fmt as a shared library. This one, header-only and
// compiled with -fkeep-inline-functions, has fmt's functions in it, so that libtenon_runtime.so
// needs no libfmt either way.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <locale>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;

namespace tenon::runtime {

// One use of each kind of argument makes the templates.
std::string use_fmt(const std::string& text, double a, float b, int i) {
  return fmt::format("{} {} {} {:L}", text, a, b, i);
}

}  // namespace tenon::runtime
