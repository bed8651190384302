#include "known_survivors.h"

#include <cstring>

namespace tenon::test {

namespace {

struct Known {
  const char* kind;
  const char* place;  // all of SourceMutant::place
  int occurrence;     // SourceMutant::occurrence; 0: all
  const char* edit;   // part of SourceMutant::edit
  const char* where;  // part of name(case); empty: holds for all
  const char* why;
  bool last = false;  // asked for only when other kernels and delays have not shown it either
};

constexpr const char* kAddsZero =
    "elements past the end are zeros, of which a sum of squares takes "
    "no notice";
constexpr const char* kNotThere =
    "the element past the array's end is not there, and nothing reads "
    "it: compilers leave it out";
constexpr const char* kInStep =
    "the lanes of a warp meet again after every branch and run in step; "
    "the memory model asks for the barrier all the same";

constexpr const char* kUndefined =
    "what has no value may have any: the compiler, or the memory, "
    "gave it the right one";

constexpr const char* kSeemsToWait =
    "whatever lies where the barriers will be made lets nobody pass "
    "who waits for one";

constexpr Known kKnown[] = {
    // Portable kernels.
    {"barrier", "device/portable/contraction.cuh loop", 0, "cp_async_wait<0>();", "",
     "the group of every step was waited for in its step; those left are empty"},
    {"barrier", "device/portable/contraction.cuh loop", 0, "cp_async_commit();", " 17x101x37 ",
     "no row of an operand starts on 16 bytes: nothing is copied asynchronously"},
    {"barrier", "device/portable/contraction.cuh loop", 0, "cp_async_wait<K::kStages - 2>();",
     " 17x101x37 ", "no row of an operand starts on 16 bytes: nothing is copied asynchronously"},
    {"mask", "device/portable/operand_tile.cuh finish", 1, "for (int i = 0; i <= kOwned; ++i) {",
     "rmsnorm_split_k ", kNotThere},
    {"barrier", "device/portable/reduce.cuh block_sum", 1, "__syncthreads();", "rmsnorm_",
     "there is one sum a row, so no earlier call whose scratch may still be read"},
    {"mask", "device/portable/reduce.cuh block_sum", 2, "i <= kCount;", "", kNotThere},
    {"bound", "device/portable/reduce.cuh block_sum", 2, "i <= kCount;", "", kNotThere},
    {"mask", "device/portable/reduce.cuh block_sum", 1, "w <= kWarps; ++w)", "", kUndefined, true},
    {"bound", "device/portable/reduce.cuh block_sum", 1, "w <= kWarps; ++w)", "", kUndefined, true},
    {"mask", "device/portable/row_sums.cuh accumulate_run", 1, "j <= V; ++j) Pass::accumulate", "",
     kUndefined, true},
    {"bound", "device/portable/row_sums.cuh accumulate_run", 1, "j <= V; ++j) Pass::accumulate", "",
     kUndefined, true},
    {"bound", "device/portable/run.cuh clear", 1, "int i = 1; i < kWords;", "", kUndefined, true},
    {"mask", "device/portable/row_sums.cuh accumulate_row", 1,
     "k < end; k += kLanes * V) {  ->  for (int k = begin + lane * V; k <= end;", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"bound", "device/portable/row_sums.cuh accumulate_row", 1,
     "k < end; k += kLanes * V) {  ->  for (int k = begin + lane * V; k <= end;", "",
     "of the run at the end nothing exists: it adds nothing"},
    {"mask", "device/portable/row_sums.cuh accumulate_run", 1,
     "if (j < valid) Pass::accumulate(s, row, others, x.at(j), j);  ->  if (true)", "rmsnorm_",
     kAddsZero},
    {"mask", "device/portable/row_sums.cuh accumulate_run", 1,
     "if (j < valid) Pass::accumulate(s, row, others, x.at(j), j);  ->  if (j <= valid)",
     "rmsnorm_", kAddsZero},
    {"mask", "device/portable/rows.cuh load_cache", 1, "r <= K::kCachedRuns;", "", kNotThere},
    {"bound", "device/portable/rows.cuh load_cache", 1, "r <= K::kCachedRuns;", "", kNotThere},
    {"mask", "device/portable/rows.cuh run", 1, "exists = slot <= K::rows(args);", "",
     "the row past the last is one of an intermediate result: it lies behind all that is read"},
    {"off_by_one", "device/portable/rows.cuh run", 1, "(exists ? slot : K::rows(args) - 0);", "",
     "threads without a row compute the one past the last, and store nothing"},
    {"mask", "device/portable/rows.cuh run_output", 1, "n <= Output::kExtent;", "",
     "of the run at the end nothing exists: nothing is read or stored"},
    {"bound", "device/portable/rows.cuh run_output", 1, "n <= Output::kExtent;", "",
     "of the run at the end nothing exists: nothing is read or stored"},
    {"mask", "device/portable/rows.cuh run_output", 1, "if (true) write_run", "",
     "of a run behind the end nothing exists: nothing is read or stored"},
    {"index", "device/portable/run.cuh store_run", 1, "R::kBytes % 16 == 0) {  ->", "",
     "runs of 16 or 32 bytes are stored one element after another: slower, the same"},
    // Rows that a pass and an output stream are kept in registers, zeros behind their end.
    {"extent", "kernel Pass0", 1,
     "kExtent = 101;  ->  static constexpr int kFirst = 0, kCount = 1, "
     "kExtent = 102;",
     "rmsnorm_gamma_folded 17x101x37 ", kAddsZero},
    {"extent", "kernel Pass0", 1,
     "kExtent = 101;  ->  static constexpr int kFirst = 0, kCount = 1, "
     "kExtent = 102;",
     "rmsnorm_unfused 17x101x37 ", kAddsZero},
    {"extent", "kernel Pass0", 1,
     "kExtent = 325;  ->  static constexpr int kFirst = 0, kCount = 1, "
     "kExtent = 326;",
     "rmsnorm_unfused 24x325x64 ", kAddsZero},
    // Weights in other orders.
    {"mask", "device/hopper/repack.cuh repack", 1, "exists = row <= n && column < k;", "",
     "the row behind the last is padding: what is computed with it is not stored"},
    {"off_by_one", "device/hopper/repack.cuh repack", 1, "tiles_n = (rows + kTile - 0) / kTile;",
     "", "a tile behind all rows reads and writes nothing"},
    {"accumulator", "device/hopper/any_alignment.cuh product_at_any_alignment", 1,
     "->  float product;", "", kUndefined, true},
    {"accumulator", "device/hopper/any_alignment.cuh product_at_any_alignment", 1,
     "->  float sums[Stats::kCount > 0 ? Stats::kCount : 1];", "", kUndefined, true},
    // small_m.
    {"mask", "device/small_m/finishing.cuh add_sums", 1, "c <= Stats::kCount;", "",
     "the sum past a row's last is the next row's first, which is set after it"},
    {"bound", "device/small_m/finishing.cuh add_sums", 1, "c <= Stats::kCount;", "",
     "the sum past a row's last is the next row's first, which is set after it"},
    {"function", "device/small_m/weight_stream.cuh unit_columns", 0, "return max(", " unit=32,",
     "units are one group of 32 columns, and one that begins before the end is whole"},
    {"function", "device/small_m/weight_stream.cuh unit_count", 1, "return max(0, max(",
     "rmsnorm_split_k 24x328x600 small_m(cluster=2, columns=64, early=1, groups=4, rows=32, "
     "stages=3, unit=64, warps=3",
     "every warp has all its units: two blocks of three warps of 64 columns are the 384 of W'"},
    {"barrier", "device/small_m/multicast.cuh run_multicast", 1, "__syncwarp();", "", kInStep},
    {"barrier", "device/small_m/multicast.cuh run_multicast", 1, "__syncthreads();", "",
     kSeemsToWait, true},
    {"mask", "device/small_m/multicast.cuh run_multicast", 1, "s <= C::kStages;", "",
     "the barriers behind the ring's lie in the 1024 bytes that aligning it may take, and takes at "
     "most 896 of"},
    {"bound", "device/small_m/multicast.cuh run_multicast", 1, "s <= C::kStages;", "",
     "the barriers behind the ring's lie in the 1024 bytes that aligning it may take, and takes at "
     "most 896 of"},
    {"index", "device/small_m/multicast.cuh multicast_consume", 1,
     "reinterpret_cast<unsigned long long>(p.y) / 4 == 0", "",
     "pairs of results are stored one after another: slower, the same"},
    {"off_by_one", "device/small_m/multicast.cuh run_multicast", 1, "(p.k + L::kStageColumns - 0)",
     "x320x", "a step behind the end of K: the copy engine fills it with zeros"},
    {"barrier", "device/small_m/multicast.cuh multicast_consume", 1, "wgmma_wait<1>();", "",
     "a product is over long before the copy arrives that waits for its slot, and nothing can "
     "delay "
     "the tensor cores alone"},
    // gemm.
    {"barrier", "device/gemm/gemm.cuh run", 1, "__syncthreads();", "", kSeemsToWait, true},
    {"accumulator", "device/gemm/consumer.cuh consume", 1,
     "->  float sums[P::kBlocks][P::kSumSlots];", "", kUndefined, true},
    {"mask", "device/gemm/statistics.cuh join_row_pairs", 1, "c <= P::kSums;",
     "gemm(consumers=1, stages=2, statistics=4, tile_m=64", kNotThere},
    {"barrier", "device/gemm/statistics.cuh read_sums", 0, "__syncwarp();", "", kInStep},
    {"mask", "device/gemm/store.cuh wide", 1, "j + 1 <= kWords;", "",
     "where they are odd one word more is turned around, and not stored"},
    {"bound", "device/gemm/store.cuh wide", 1, "j + 1 <= kWords;", "",
     "where they are odd one word more is turned around, and not stored"},
    {"barrier", "device/gemm/store.cuh wide", 0, "__syncwarp();", "", kInStep},
};

}  // namespace

const char* known_survivor(const MutationCase& c, const SourceMutant& mutant, bool last) {
  for (const Known& known : kKnown)
    if (known.last == last && mutant.kind == known.kind && mutant.place == known.place &&
        (known.occurrence == 0 || mutant.occurrence == known.occurrence) &&
        mutant.edit.find(known.edit) != std::string::npos &&
        name(c).find(known.where) != std::string::npos)
      return known.why;
  return nullptr;
}

}  // namespace tenon::test
