#include "ir/layout.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/workload.h"

namespace tenon::ir {
namespace {

TEST(Layout, ChangesOneInputAndTheIdentity) {
  Program program = catalog_program("rmsnorm_linear");
  Program stored = with_layout(program, "w=n,k");
  EXPECT_NE(identity(stored), identity(program));
  EXPECT_NE(print(stored).find("input w: T[n, k] parameter"), std::string::npos);
  EXPECT_EQ(stored.signature.output_axes, program.signature.output_axes);
  // Back again is the program itself, and its text form survives.
  EXPECT_EQ(with_layout(stored, "w=k,n"), program);
  EXPECT_EQ(parse_program(print(stored)), stored);
  EXPECT_NE(key(make_workload(stored, {{"m", 2}, {"k", 3}, {"n", 4}}, DType::kBF16)),
            key(make_workload(program, {{"m", 2}, {"k", 3}, {"n", 4}}, DType::kBF16)));
}

TEST(Layout, RefusesWhatIsNoOrderOfTheAxes) {
  Program program = catalog_program("rmsnorm_linear");
  for (const char* bad : {"w", "", "=", "q=n,k", "w=", "w=n", "w=n,n", "w=n,k,m", "w=n,q", "y=n,m"})
    EXPECT_THROW(with_layout(program, bad), UserError) << bad;
  try {
    with_layout(program, "w=n,m");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              UserError("layout", "w=n,m", "the axes k,n in any order").what());
  }
}

TEST(Layout, EveryCatalogProgramWithTransposedWeights) {
  int tried = 0;
  for (const CatalogEntry& entry : catalog()) {
    Program program = catalog_program(entry.name);
    for (const ProgramInput& in : program.signature.inputs) {
      if (in.role != Role::kParameter || in.axes.size() != 2) continue;
      const std::string order =
          program.signature.dims[in.axes[1].dim] + "," + program.signature.dims[in.axes[0].dim];
      Program stored = with_layout(program, in.name + "=" + order);
      EXPECT_EQ(stored.graph.nodes().size(), program.graph.nodes().size());
      ++tried;
    }
  }
  EXPECT_GT(tried, 5);
}

}  // namespace
}  // namespace tenon::ir
