// The text of the device's reference kernels compiles for every program that it says it can do.
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "measure/device_math_source.h"

namespace tenon::measure {
namespace {

TEST(DeviceMathSource, EveryCatalogProgramCompiles) {
  std::string why;
  if (!codegen::nvrtc_available(&why)) GTEST_SKIP() << why;
  int written = 0;
  for (const ir::CatalogEntry& entry : ir::catalog())
    for (ir::DType dtype : {ir::DType::kBF16, ir::DType::kF32}) {
      const ir::Program program = ir::catalog_program(entry.name);
      std::map<std::string, std::int64_t> dims;
      std::int64_t extent = 5;
      for (const std::string& dim : program.signature.dims) dims[dim] = extent += 62;
      ir::Workload workload = ir::make_workload(program, dims, dtype);
      auto source = write_math(workload, &why);
      ASSERT_TRUE(source) << program.signature.program << ": " << why;
      codegen::Compiled compiled =
          codegen::compile({source->text, {}}, ir::target_from_name("sm_80"));
      EXPECT_TRUE(compiled.ok) << program.signature.program << "\n" << compiled.log;
      EXPECT_EQ(source->exact.size(), static_cast<std::size_t>(program.graph.value_count()));
      ++written;
    }
  EXPECT_GT(written, 0);
}

}  // namespace
}  // namespace tenon::measure
