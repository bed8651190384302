#include "mutation_cases.h"

#include <fmt/format.h>

namespace tenon::test {

// Shapes: 24 x 320 x 600 is aligned, five steps of 64 columns; 20 x 328 x 301 still passes through
// the copy engines, ragged in every dim; 17 x 101 x 37 does not, no row of it is aligned; k = 328
// is copied asynchronously and leaves the last step ragged; k = 584 is more than one chunk of a
// ring of rows; 200 rows are for `gemm`, whose tiles of 8 columns make more tiles than an H200 has
// multiprocessors.
const std::vector<MutationCase>& mutation_cases() {
  static const std::vector<MutationCase> cases = {
      {"rmsnorm_one_pass", 24, 328, 600,
       "contraction(stages=2, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=2)", 4},
      {"rmsnorm_one_pass", 17, 101, 37,
       "contraction(stages=3, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=2)", 4},
      {"rmsnorm_one_pass", 24, 320, 600,
       "small_m(columns=128, early=1, groups=4, rows=32, stages=5, unit=64, warps=3, weights=0)",
       4},
      {"rmsnorm_one_pass", 20, 328, 301,
       "small_m(chains=2, columns=128, early=1, groups=3, interleaved=1, rows=32, staged=0, "
       "stages=2, stats_first=1, unit=32, warps=3, weights=1)",
       4},
      {"rmsnorm_one_pass", 24, 320, 600,
       "small_m(columns=64, early=2, groups=4, rows=32, staged=0, stages=2, unit=32, warps=5, "
       "weights=2)",
       3},
      {"rmsnorm_one_pass", 24, 320, 600,
       "multicast(early=1, rows=32, share=2, stages=2, tile_n=48)", 4},
      {"rmsnorm_one_pass", 200, 320, 600,
       "gemm(consumers=1, stages=2, statistics=4, tile_m=64, tile_n=8)", 4},
      {"rmsnorm_one_pass", 200, 320, 600,
       "gemm(consumers=2, ping_pong=1, slices=4, stages=3, statistics=3, tile_m=64, tile_n=8)", 4},
      {"rmsnorm_one_pass", 200, 584, 600,
       "gemm(cluster_n=2, consumers=2, row_slots=3, stages=3, statistics=2, tile_m=128, tile_n=8)",
       4},
      {"rmsnorm_deferred_scale", 24, 320, 600,
       "rows(group=8, threads=64); small_m(columns=64, early=1, groups=4, rows=32, stages=3, "
       "unit=64, warps=5, weights=0)",
       6},
      {"rmsnorm_deferred_scale", 20, 328, 301,
       "rows(group=128, threads=128); multicast(early=2, rows=24, share=1, stages=3, tile_n=16)",
       6},
      {"rmsnorm_deferred_scale", 200, 320, 600,
       "rows(group=32, threads=128); gemm(consumers=1, raster=1, stages=2, tile_m=64, tile_n=8)",
       6},
      {"rmsnorm_deferred_scale", 17, 101, 37,
       "rows(group=8, threads=64); contraction(stages=2, tile_k=32, tile_m=16, tile_n=32, "
       "warps_m=1, warps_n=2)",
       6},
      {"rmsnorm_gamma_folded", 24, 320, 600,
       "rows(group=32, threads=128); multicast(early=1, rows=32, share=2, stages=2, tile_n=48)", 7},
      {"rmsnorm_gamma_folded", 17, 101, 37,
       "rows(group=64, threads=64); contraction(stages=2, tile_k=32, tile_m=16, tile_n=32, "
       "warps_m=1, warps_n=2)",
       7},
      {"rmsnorm_gamma_folded", 200, 328, 600,
       "rows(group=8, threads=64); contraction(stages=3, tile_k=32, tile_m=64, tile_n=64, "
       "warps_m=2, warps_n=2)",
       7},
      {"rmsnorm_prologue", 24, 328, 600,
       "contraction(stages=2, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=2)", 8},
      {"rmsnorm_prologue", 17, 101, 37,
       "contraction(stages=3, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=2)", 8},
      {"rmsnorm_prologue", 200, 328, 600,
       "contraction(stages=3, tile_k=32, tile_m=64, tile_n=64, warps_m=2, warps_n=2)", 6},
      {"rmsnorm_split_k", 24, 328, 600,
       "contraction(splits=4, stages=2, tile_k=32, tile_m=16, tile_n=64, warps_m=1, warps_n=4)", 6},
      {"rmsnorm_split_k", 24, 328, 600,
       "small_m(cluster=2, columns=64, early=1, groups=4, rows=32, stages=3, unit=64, warps=3, "
       "weights=0)",
       6},
      {"rmsnorm_split_k", 200, 320, 600,
       "gemm(consumers=1, split_k=2, stages=2, statistics=4, tile_m=64, tile_n=16)", 6},
      {"rmsnorm_split_k", 17, 101, 37,
       "contraction(splits=2, stages=2, tile_k=32, tile_m=16, tile_n=32, warps_m=1, warps_n=2)", 4},
      {"rmsnorm_unfused", 24, 325, 64, "rows(group=8, threads=64); library(algorithm=0)", 7},
      {"rmsnorm_unfused", 17, 101, 37, "rows(group=128, threads=128); library(algorithm=0)", 7},
      {"rmsnorm_unfused", 20, 332, 64, "rows(group=32, threads=128); library(algorithm=0)", 7},
      {"rmsnorm_one_pass", 200, 320, 600,
       "gemm(consumers=2, ping_pong=1, stages=3, statistics=5, tile_m=64, tile_n=8)", 5},
  };
  return cases;
}

ir::Workload workload_of(const MutationCase& c) {
  return ir::make_workload(ir::catalog_program("rmsnorm_linear"),
                           {{"m", c.m}, {"k", c.k}, {"n", c.n}}, ir::DType::kBF16);
}

std::string name(const MutationCase& c) {
  return fmt::format("{} {}x{}x{} {}", c.fixture, c.m, c.k, c.n, c.schedule);
}

}  // namespace tenon::test
