// Block graphs: depth-first, one operator at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "search/block_reach.h"

namespace tenon::search {

inline constexpr int kMaxIntermediates = 2;  // stored by one kernel

struct BlockBounds {
  int max_ops = 12;   // at least 1
  int max_reads = 2;  // intermediates and outputs of other kernels that one kernel loads
};

struct BlockResult {
  std::vector<KernelForm> forms;
  std::uint64_t visited = 0;
  PruneCounts pruned;
  bool cut_by_ops = false;    // max_ops stopped an extension
  bool cut_by_reads = false;  // max_reads did
  void operator+=(BlockResult other);
};

// What every finished kernel must satisfy, and the rules that look at whole kernels: appends the
// form to `out` or counts why not. Its stores are sorted by class.
void finish_kernel(const Space& space, const RuleSet& rules, KernelForm form, BlockResult& out);
// May one kernel store these classes (each named once)? Grid dims must all be theirs.
bool may_store(const Space& space, const Frame& frame, const std::vector<ClassId>& stores);

// All kernels cut like one frame. Const calls are safe from several threads.
class BlockSearch {
 public:
  BlockSearch(Space& space, const Frame& frame, const RuleSet& rules,
              const std::function<bool()>& stop);
  ~BlockSearch();

  // Number of first operators; run(i) explores the kernels that begin with the i-th.
  std::size_t branches() const;
  BlockResult run(std::size_t branch, const BlockBounds& bounds) const;
  // Counts of choosing the first operators.
  BlockResult root() const;

 private:
  struct Walk;
  struct Roots;
  void find_roots();

  Space& space_;
  Frame frame_;
  const RuleSet& rules_;
  const std::function<bool()>& stop_;
  BlockReach reach_;
  std::unique_ptr<Roots> roots_;
};

}  // namespace tenon::search
