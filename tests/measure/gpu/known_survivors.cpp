#include "known_survivors.h"

#include <cstring>

namespace tenon::test {

namespace {

struct Known {
  const char* kind;
  const char* place;  // all of SourceMutant::place
  const char* edit;   // part of SourceMutant::edit
  const char* where;  // part of name(case); empty: holds for all
  const char* why;
};

constexpr Known kKnown[] = {
    {"barrier", "device/portable/contraction.cuh loop", "cp_async_wait<0>();", "",
     "the group of every step was waited for in its step; those left are empty"},
    {"barrier", "device/portable/contraction.cuh loop", "cp_async_commit();", " 17x101x37 ",
     "no row of an operand starts on 16 bytes: nothing is copied asynchronously"},
    {"barrier", "device/portable/contraction.cuh loop", "cp_async_wait<K::kStages - 2>();",
     " 17x101x37 ", "no row of an operand starts on 16 bytes: nothing is copied asynchronously"},
    {"mask", "device/portable/row_sums.cuh accumulate_row",
     "k < end; k += kLanes * V) {  ->  for (int k = begin + lane * V; k <= end;", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"bound", "device/portable/row_sums.cuh accumulate_row",
     "k < end; k += kLanes * V) {  ->  for (int k = begin + lane * V; k <= end;", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"index", "device/portable/run.cuh store_run", "R::kBytes % 16 == 0) {  ->", "",
     "runs of 16 or 32 bytes are stored one element after another: slower, the same"},
};

}  // namespace

const char* known_survivor(const MutationCase& c, const SourceMutant& mutant) {
  for (const Known& known : kKnown)
    if (mutant.kind == known.kind && mutant.place == known.place &&
        mutant.edit.find(known.edit) != std::string::npos &&
        name(c).find(known.where) != std::string::npos)
      return known.why;
  return nullptr;
}

}  // namespace tenon::test
