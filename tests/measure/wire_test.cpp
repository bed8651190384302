// Messages between a runner and its worker, whole and damaged.
#include "measure/wire.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "host_plan.h"
#include "ir/error.h"

namespace tenon::measure {
namespace {

TEST(Wire, RoundTrips) {
  test::Dims dims{{"m", 6}, {"k", 80}, {"n", 100}};
  ir::Workload workload = ir::make_workload(ir::catalog_program("rmsnorm_linear"), dims,
                                            ir::DType::kF16, {{"eps", 0.25}});
  Candidate candidate{test::host_plan(test::fixture("rmsnorm_one_pass"), dims, ir::DType::kF16,
                                      {"host", {{"tile_m", 3}}}),
                      {std::string("\0cubin\xff", 7), ""}};
  Timing timing{Status::kTimeout, "why", {1.5, 2.5}, 2, 1, "how", "by whom", true};
  verifier::Evidence evidence{"numeric", verifier::Verdict::kUnknown, "r", "{}", "c", 0.5};
  Protocol protocol;
  protocol.samples = 7;
  protocol.rotate = false;
  protocol.hang_limit_s = 3.5;
  Writer to;
  write(to, workload);
  write(to, candidate);
  write(to, timing);
  write(to, evidence);
  write(to, protocol);
  Reader from(to.bytes());
  EXPECT_EQ(read_workload(from), workload);
  Candidate c = read_candidate(from);
  EXPECT_EQ(ir::print(c.plan), ir::print(candidate.plan));
  EXPECT_EQ(c.cubins, candidate.cubins);
  Timing t = read_timing(from);
  EXPECT_EQ(t.status, Status::kTimeout);
  EXPECT_EQ(t.reason, "why");
  EXPECT_EQ(t.samples_us, timing.samples_us);
  EXPECT_EQ(t.disturbance, "by whom");
  EXPECT_TRUE(t.not_run);
  verifier::Evidence e = read_evidence(from);
  EXPECT_EQ(e.method + e.reason + e.figures + e.counterexample, "numericr{}c");
  EXPECT_EQ(e.verdict, verifier::Verdict::kUnknown);
  Protocol p = read_protocol(from);
  EXPECT_EQ(p.samples, 7);
  EXPECT_FALSE(p.rotate);
  EXPECT_EQ(p.hang_limit_s, 3.5);
  from.end();
}

TEST(Wire, DamagedAnswersAreMalformedAndAllocateNothingLarge) {
  Timing timing{Status::kOk, "", std::vector<double>(20, 1.0), 1, 0, "protocol", "", false};
  Writer to;
  write(to, timing);
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = to.bytes().substr(0, trial % 3 ? to.bytes().size() : random() % 100);
    for (int flips = static_cast<int>(random() % 5); flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      Reader from(bytes);
      EXPECT_LE(read_timing(from).samples_us.size(), 40u);
      from.end();
    } catch (const Malformed&) {
    }
  }
}

TEST(Wire, FramesOfAnotherKindAreRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Frame frame;
  ASSERT_TRUE(send(ends[1], Message::kTimings, "abc"));
  ASSERT_TRUE(receive(ends[0], frame));
  EXPECT_EQ(frame.message, Message::kTimings);
  EXPECT_EQ(frame.content, "abc");
  const std::string junk(16, '\x7f');
  ASSERT_EQ(::write(ends[1], junk.data(), junk.size()), 16);
  EXPECT_THROW(receive(ends[0], frame), Malformed);
  close(ends[1]);
  EXPECT_FALSE(receive(ends[0], frame));
  close(ends[0]);
}

}  // namespace
}  // namespace tenon::measure
