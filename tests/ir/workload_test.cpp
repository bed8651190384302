#include "ir/workload.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/error.h"

namespace tenon::ir {
namespace {

Program rmsnorm() { return catalog_program("rmsnorm_linear"); }

std::string error(const std::map<std::string, std::int64_t>& dims, DType dtype = DType::kBF16,
                  const std::map<std::string, double>& attributes = {}) {
  try {
    make_workload(rmsnorm(), dims, dtype, attributes);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Workload, BindsAndPrints) {
  const Workload w = make_workload(rmsnorm(), {{"m", 16}, {"k", 576}, {"n", 960}}, DType::kBF16);
  EXPECT_EQ(w.extents, (Extents{16, 576, 960}));
  EXPECT_EQ(w.attributes.at("eps"), 1e-6);
  EXPECT_EQ(print(w), "rmsnorm_linear m=16 k=576 n=960 bf16 eps=1e-06");
  EXPECT_EQ(extent(w, "k"), 576);
  EXPECT_THROW(extent(w, "q"), UserError);
}

TEST(Workload, AttributesCanBeBound) {
  const Workload w =
      make_workload(rmsnorm(), {{"m", 1}, {"k", 2}, {"n", 3}}, DType::kF32, {{"eps", 0.25}});
  EXPECT_EQ(w.attributes.at("eps"), 0.25);
  EXPECT_EQ(print(w), "rmsnorm_linear m=1 k=2 n=3 fp32 eps=0.25");
}

TEST(Workload, KeyLeavesTheDynamicDimOutAndNothingElse) {
  const std::map<std::string, std::int64_t> dims = {{"m", 16}, {"k", 576}, {"n", 960}};
  const Workload w = make_workload(rmsnorm(), dims, DType::kBF16);
  const auto json = nlohmann::json::parse(key(w));
  EXPECT_EQ(json["program"], "rmsnorm_linear");
  EXPECT_EQ(json["program_id"], identity(w.program));
  EXPECT_EQ(json["dims"].dump(), R"({"k":576,"n":960})");
  EXPECT_EQ(json["dtype"], "bf16");
  EXPECT_EQ(json["attributes"]["eps"], 1e-6);

  auto with = [&](const std::string& dim, std::int64_t extent) {
    auto changed = dims;
    changed[dim] = extent;
    return key(make_workload(rmsnorm(), changed, DType::kBF16));
  };
  EXPECT_EQ(with("m", 17), key(w));
  EXPECT_NE(with("k", 577), key(w));
  EXPECT_NE(with("n", 961), key(w));
  EXPECT_NE(key(make_workload(rmsnorm(), dims, DType::kF16)), key(w));
  EXPECT_NE(key(make_workload(rmsnorm(), dims, DType::kBF16, {{"eps", 1e-5}})), key(w));
  EXPECT_NE(key(w, "k"), key(w));
}

TEST(Workload, BadDimsAreNamed) {
  EXPECT_NE(error({{"m", 16}, {"k", 576}}).find("dim n has no extent"), std::string::npos);
  EXPECT_NE(error({{"m", 1}, {"k", 1}, {"n", 1}, {"q", 1}}).find("dim is 'q'"), std::string::npos);
  EXPECT_EQ(error({{"m", 0}, {"k", 1}, {"n", 1}}), "dim m is '0'; accepted: 1 to 2147483647");
  EXPECT_EQ(error({{"m", 1}, {"k", -5}, {"n", 1}}), "dim k is '-5'; accepted: 1 to 2147483647");
  EXPECT_EQ(error({{"m", 1}, {"k", 1}, {"n", INT64_C(1) << 40}}),
            "dim n is '1099511627776'; accepted: 1 to 2147483647");
  EXPECT_EQ(error({{"m", 2147483647}, {"k", 1}, {"n", 1}}), "no error");
}

TEST(Workload, TensorsBeyond2To40ElementsAreRefused) {
  EXPECT_EQ(error({{"m", 1 << 20}, {"k", 1 << 20}, {"n", 1}}), "no error");
  EXPECT_NE(error({{"m", (1 << 20) + 1}, {"k", 1 << 20}, {"n", 1}})
                .find("input x has more than 2^40 elements"),
            std::string::npos);
  EXPECT_NE(error({{"m", 1 << 21}, {"k", 1}, {"n", 1 << 20}}).find("output y"), std::string::npos);
  EXPECT_NE(error({{"m", 2147483647}, {"k", 2147483647}, {"n", 2147483647}}).find("2^40"),
            std::string::npos);
}

TEST(Workload, BadAttributesAndTypesAreNamed) {
  const std::map<std::string, std::int64_t> dims = {{"m", 1}, {"k", 1}, {"n", 1}};
  EXPECT_NE(
      error(dims, DType::kBF16, {{"epsilon", 1.0}}).find("attribute is 'epsilon'; accepted: eps"),
      std::string::npos);
  for (double bad : {0.0, -1e-6, std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity(), 1e300, 1e-300}) {
    EXPECT_NE(error(dims, DType::kBF16, {{"eps", bad}}).find("attribute eps is"), std::string::npos)
        << bad;
  }
  EXPECT_NE(error(dims, DType::kElem).find("dtype is 'T'"), std::string::npos);
}

TEST(Workload, RowsMayBeApart) {
  const Workload w = make_workload(rmsnorm(), {{"m", 16}, {"k", 576}, {"n", 960}}, DType::kBF16);
  const Workload apart = with_row_stride(with_row_stride(w, "x", 640), "y", 961);
  EXPECT_EQ(print(apart),
            "rmsnorm_linear m=16 k=576 n=960 bf16 eps=1e-06 rows of x 640 apart rows of y 961 "
            "apart");
  EXPECT_NE(key(apart), key(w));
  const auto json = nlohmann::json::parse(key(apart));
  EXPECT_EQ(json["row_strides"]["row stride of x"], 640);
  EXPECT_FALSE(nlohmann::json::parse(key(w)).contains("row_strides"));
  EXPECT_EQ(with_row_stride(apart, "x", 576),
            with_row_stride(w, "y", 961));  // one behind the other
  const Axes x = w.program.signature.inputs[0].axes;
  EXPECT_EQ(row_stride("x", x, apart), 640);
  EXPECT_EQ(row_stride("x", x, w), 576);
  EXPECT_EQ(row_elements(x, apart), 576);
  for (auto [name, stride] : {std::pair{"x", 575}, {"w", 2000}, {"g", 2000}, {"q", 2000}, {"y", 0}})
    EXPECT_THROW(with_row_stride(w, name, stride), UserError) << name << stride;
  EXPECT_THROW(with_row_stride(w, "x", std::int64_t{1} << 31), UserError);
}

}  // namespace
}  // namespace tenon::ir
