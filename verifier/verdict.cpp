#include "ir/error.h"
#include "verifier/verifier.h"

namespace tenon::verifier {

namespace {
struct Named {
  Verdict verdict;
  const char* text;
};
constexpr Named kNames[] = {
    {Verdict::kPass, "pass"},       {Verdict::kProved, "proved"},
    {Verdict::kRefuted, "refuted"}, {Verdict::kUnknown, "unknown"},
    {Verdict::kTimeout, "timeout"}, {Verdict::kUnsupported, "unsupported"},
};
}  // namespace

std::string name(Verdict verdict) {
  for (const Named& n : kNames)
    if (n.verdict == verdict) return n.text;
  TENON_CHECK(false, "every verdict has a name");
}

Verdict verdict_from_name(const std::string& text) {
  for (const Named& n : kNames)
    if (n.text == text) return n.verdict;
  throw UserError("verdict", text, "pass, proved, refuted, unknown, timeout or unsupported");
}

}  // namespace tenon::verifier
