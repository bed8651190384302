// A generator of wrong CUDA sources: small edits of a generated kernel and of the device library's
// text that it includes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tenon::test {

struct SourceMutant {
  std::string kind;   // "barrier", "mask", "accumulator", "stride", …
  std::string place;  // the file and the function, "device/small_m/streaming.cuh stream_warp"
  int occurrence;     // of the line among equal ones of that function, from 1
  std::string edit;   // the line before and after
  std::string text;   // the whole source
};
// What identifies the edit in a table: "[2] before  ->  after"; the first occurrence has no number.
std::string described(const SourceMutant& mutant);

// The source with the device library's headers in place of its #includes, each once. A comment
// before every part names its file; "kernel" is the source itself.
std::string flatten(const std::string& source);

// One mutant for each place of each kind, in the order of the text; comments and declarations are
// left alone. `flat` is what flatten() made.
std::vector<SourceMutant> source_mutants(const std::string& flat);

// The same edit of another source; nothing where it has no such line.
std::optional<SourceMutant> same_edit(const std::string& flat, const SourceMutant& mutant);

// At most `count`, the kinds in turn, each kind's places evenly over the text; another `start`
// begins with another kind and other places.
std::vector<SourceMutant> spread(const std::vector<SourceMutant>& all, std::size_t count,
                                 std::size_t start = 0);

}  // namespace tenon::test
