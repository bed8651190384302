// With TENON_QUICK_BUILD the other files call fmt as a shared library. This one is header-only and
// has the functions they call in it, so that libtenon_runtime.so needs no libfmt either way.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <locale>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl(
    fmt::detail::locale_ref);

namespace tenon::runtime {

// Inline functions are emitted where their addresses are taken.
extern std::string (*const kVformat)(fmt::string_view, fmt::format_args);
extern bool (*const kIsPrintable)(std::uint32_t);
extern void (*const kThrowFormatError)(const char*);
std::string (*const kVformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
bool (*const kIsPrintable)(std::uint32_t) = &fmt::detail::is_printable;
void (*const kThrowFormatError)(const char*) = &fmt::detail::throw_format_error;

}  // namespace tenon::runtime
