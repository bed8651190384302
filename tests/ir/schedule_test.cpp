#include "ir/schedule.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/sha256.h"

namespace tenon::ir {
namespace {

TEST(Schedule, PrintsAsDocumented) {
  Schedule s;
  s.kernels = {{"rows", {{"threads", 256}}},
               {"contraction", {{"tile_m", 64}, {"tile_n", 64}, {"tile_k", 64}, {"stages", 3}}}};
  s.dependent_launch = true;
  EXPECT_EQ(print(s),
            "rows(threads=256); contraction(stages=3, tile_k=64, tile_m=64, tile_n=64) dependent");
  EXPECT_EQ(parse_schedule(print(s)), s);
  EXPECT_EQ(identity(s), sha256_hex(print(s)));
  EXPECT_EQ(s.kernels[0].get("threads", 1), 256);
  EXPECT_EQ(s.kernels[0].get("stages", 4), 4);
}

TEST(Schedule, RoundTripsEdgeCases) {
  const Schedule cases[] = {
      {},
      {{}, true},
      {{{"library", {}}}, false},
      {{{"library", {}}, {"host", {{"grain", -1}}}}, true},
      {{{"x", {{"a", INT64_MAX}, {"b", INT64_MIN}}}}, false},
  };
  for (const Schedule& s : cases) EXPECT_EQ(parse_schedule(print(s)), s) << print(s);
}

TEST(Schedule, ParsingIsIndifferentToSpaceAndOrder) {
  EXPECT_EQ(print(parse_schedule("  a( y=2 ,x=1 ) ;b()\n")), "a(x=1, y=2); b");
}

TEST(Schedule, RefusesMalformedText) {
  for (const char* text :
       {"rows(", "rows(threads)", "rows(threads=)", "rows(threads=1.5)", "rows(threads=a)",
        "rows(threads=9223372036854775808)", "rows(a=1, a=2)", "rows;", "; rows",
        "rows dependent dependent", "rows gemm", "dependent; rows", "rows; dependent", "rows(a=1",
        "3", "rows(a=1))", "rows\nrows"}) {
    EXPECT_THROW(parse_schedule(text), UserError) << text;
  }
  EXPECT_THROW(parse_schedule(std::string("rows\0", 5)), UserError);
}

}  // namespace
}  // namespace tenon::ir
