// Every catalog program against its formula, written out with loops over float64.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "ir/domain.h"
#include "ir/error.h"
#include "ir/program.h"
#include "ir/roots.h"
#include "ir/workload.h"

namespace tenon::ir {
namespace {

using Matrix = std::vector<double>;
using Outputs = std::vector<Matrix>;

constexpr std::int64_t kM = 3, kK = 7;  // rows, and the extent of "k"
constexpr double kEps = 0.25;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Matrix product(const Matrix& a, const Matrix& w, std::int64_t k, std::int64_t n) {
  const std::int64_t m = static_cast<std::int64_t>(a.size()) / k;
  Matrix y(at(m * n), 0.0);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l) y[at(i * n + j)] += a[at(i * k + l)] * w[at(l * n + j)];
  return y;
}

// Rows of `n` elements, centred or not, over their root mean square; gain and shift repeat.
Matrix normed(const Matrix& x, std::int64_t n, bool centre, const Matrix& gain,
              const Matrix& shift = {}) {
  Matrix y(x.size());
  for (std::size_t first = 0; first < x.size(); first += at(n)) {
    double mean = 0, square = 0;
    for (std::int64_t j = 0; centre && j < n; ++j)
      mean += x[first + at(j)] / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) square += std::pow(x[first + at(j)] - mean, 2);
    const double root = std::sqrt(square / static_cast<double>(n) + kEps);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::size_t e = first + at(j), p = e % gain.size();
      y[e] = (x[e] - mean) / root * gain[p] + (shift.empty() ? 0.0 : shift[p]);
    }
  }
  return y;
}

Matrix zip(const Matrix& a, const Matrix& b, const std::function<double(double, double)>& f) {
  Matrix y(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) y[i] = f(a[i], b[i % b.size()]);
  return y;
}

double add(double a, double b) { return a + b; }
double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_by_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Inputs by name -> outputs in signature order.
using Formula = std::function<Outputs(std::map<std::string, Matrix>&)>;

std::map<std::string, Formula> formulas() {
  using In = std::map<std::string, Matrix>&;
  const std::int64_t n = 5, h = 2, d = 4;
  auto rms = [](In in) { return normed(in["x"], kK, false, in["g"]); };
  std::map<std::string, Formula> f;
  f["rmsnorm_linear"] = [=](In in) { return Outputs{product(rms(in), in["w"], kK, n)}; };
  f["layernorm_linear"] = [=](In in) {
    Matrix x = normed(in["x"], kK, true, in["g"], in["b"]);
    return Outputs{zip(product(x, in["w"], kK, n), in["c"], add)};
  };
  f["add_rmsnorm_linear"] = [=](In in) {
    Matrix s = zip(in["x"], in["e"], add);
    return Outputs{s, product(normed(s, kK, false, in["g"]), in["w"], kK, n)};
  };
  auto gated = [=](double (*act)(double)) {
    return [=](In in) {
      Matrix gate = product(rms(in), in["wg"], kK, n), up = product(rms(in), in["wu"], kK, n);
      return Outputs{zip(gate, up, [=](double a, double b) { return act(a) * b; })};
    };
  };
  f["rmsnorm_gated_mlp_in"] = gated(silu);
  f["rmsnorm_gated_mlp_in_gelu"] = gated(gelu_by_tanh);
  f["rmsnorm_qkv"] = [=](In in) {
    return Outputs{product(rms(in), in["wq"], kK, 8), product(rms(in), in["wk"], kK, 2),
                   product(rms(in), in["wv"], kK, 6)};
  };
  f["linear_headnorm"] = [=](In in) {
    return Outputs{normed(product(in["x"], in["w"], kK, h * d), d, false, in["g"])};
  };
  f["linear_head_layernorm"] = [=](In in) {
    return Outputs{normed(product(in["x"], in["w"], kK, h * d), d, true, in["g"], in["b"])};
  };
  f["batchnorm_linear"] = [=](In in) {
    Matrix x = in["x"];
    for (std::size_t e = 0; e < x.size(); ++e) {
      const std::size_t l = e % at(kK);
      x[e] = (x[e] - in["mean"][l]) / std::sqrt(in["var"][l] + kEps) * in["g"][l] + in["b"][l];
    }
    return Outputs{zip(product(x, in["w"], kK, n), in["c"], add)};
  };
  f["rmsnorm_linear_bias_gelu"] = [=](In in) {
    return Outputs{zip(product(rms(in), in["w"], kK, n), in["c"],
                       [](double y, double c) { return gelu(y + c); })};
  };
  f["dyt_linear"] = [=](In in) {
    Matrix x = in["x"];
    for (std::size_t e = 0; e < x.size(); ++e)
      x[e] = std::tanh(in["a"][0] * x[e]) * in["g"][e % at(kK)] + in["b"][e % at(kK)];
    return Outputs{product(x, in["w"], kK, n)};
  };
  f["gemma_rmsnorm_linear"] = [=](In in) {
    Matrix gain = zip(in["g"], {1.0}, add);
    return Outputs{product(normed(in["x"], kK, false, gain), in["w"], kK, n)};
  };
  f["linear_rmsnorm"] = [=](In in) {
    return Outputs{normed(product(in["x"], in["w"], kK, n), n, false, in["g"])};
  };
  return f;
}

std::map<std::string, std::int64_t> extents_by_name() {
  return {{"m", kM}, {"k", kK}, {"n", 5}, {"h", 2}, {"d", 4}, {"nq", 8}, {"nk", 2}, {"nv", 6}};
}

TEST(Catalog, EveryProgramIsItsFormula) {
  const auto formula = formulas();
  for (const CatalogEntry& entry : catalog()) {
    ASSERT_TRUE(formula.count(entry.name)) << "no formula for " << entry.name;
    const Program program = catalog_program(entry.name);
    const std::vector<bool> under_root = inputs_under_roots(program);
    Extents extents;
    for (const std::string& dim : program.signature.dims)
      extents.push_back(extents_by_name().at(dim));
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    std::vector<Values<double>> inputs;
    std::map<std::string, Matrix> by_name;
    for (const ProgramInput& in : program.signature.inputs) {
      Values<double> v{in.axes, {}, {}};
      for (const Axis& axis : in.axes) v.extents.push_back(extents[axis.dim]);
      for (std::int64_t e = element_count(in.axes, extents); e > 0; --e)
        v.data.push_back(under_root[inputs.size()] ? std::fabs(normal(random)) : normal(random));
      by_name[in.name] = v.data;
      inputs.push_back(std::move(v));
    }
    AttributeValues attributes;
    for (const auto& [name, value] : program.signature.attributes) attributes[name] = kEps;
    DoubleDomain domain(attributes);
    const auto got = evaluate(program, extents, domain, inputs);
    const std::vector<Matrix> want = formula.at(entry.name)(by_name);
    ASSERT_EQ(got.size(), want.size()) << entry.name;
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].data.size(), want[o].size()) << entry.name;
      for (std::size_t e = 0; e < want[o].size(); ++e)
        EXPECT_NEAR(got[o].data[e], want[o][e], 1e-12) << entry.name << " output " << o;
    }
  }
}

TEST(Catalog, VarianceIsTheOnlyInputUnderARoot) {
  for (const CatalogEntry& entry : catalog()) {
    const Program program = catalog_program(entry.name);
    const std::vector<bool> under = inputs_under_roots(program);
    for (std::size_t i = 0; i < under.size(); ++i)
      EXPECT_EQ(under[i], program.signature.inputs[i].name == "var") << entry.name;
  }
}

TEST(Catalog, DocumentedOneByOne) {
  std::ifstream file(std::string(TENON_FIXTURES) + "/../../../docs/programs.md");
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_NE(text.str().find("## " + entry.name + "\n"), std::string::npos) << entry.name;
    EXPECT_FALSE(entry.formula.empty());
    EXPECT_FALSE(entry.found_in.empty());
  }
}

TEST(Catalog, KeysCarryEveryDim) {
  const Workload a = make_workload(catalog_program("linear_headnorm"),
                                   {{"m", 4}, {"k", 64}, {"h", 3}, {"d", 16}}, DType::kBF16);
  const Workload b = make_workload(catalog_program("linear_headnorm"),
                                   {{"m", 9}, {"k", 64}, {"h", 3}, {"d", 8}}, DType::kBF16);
  EXPECT_NE(key(a).find(R"("dims":{"d":16,"h":3,"k":64})"), std::string::npos) << key(a);
  EXPECT_NE(key(a), key(b));
  EXPECT_EQ(print(a), "linear_headnorm m=4 k=64 h=3 d=16 bf16 eps=1e-06");
}

// Values from tables: erf(1/2), Φ(1), tanh(1/2), the logistic function, and their tails.
TEST(Functions, KnownValues) {
  const DoubleDomain d({});
  EXPECT_NEAR(d.apply(OpKind::kExp, 1.0), 2.718281828459045, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kTanh, 0.5), 0.46211715726000979, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kErf, 0.5), 0.52049987781304654, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kSigmoid, 1.0), 0.73105857863000488, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kSilu, -2.0), -0.23840584404423511, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kGelu, 1.0), 0.84134474606854293, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kGelu, -1.0), -0.15865525393145707, 1e-15);
  EXPECT_NEAR(d.apply(OpKind::kGelu, -8.0) / -4.97676846e-15, 1, 1e-8);  // 8·Φ(−8)
  EXPECT_NEAR(d.apply(OpKind::kGeluTanh, 1.0), 0.84119199060827676, 1e-15);
  const RoundedDomain f({}, DType::kBF16);
  for (OpKind op : {OpKind::kExp, OpKind::kTanh, OpKind::kErf, OpKind::kSigmoid, OpKind::kSilu,
                    OpKind::kGelu, OpKind::kGeluTanh})
    for (float x : {-6.5f, -2.0f, -0.01f, 0.0f, 0.3f, 1.7f, 9.0f}) {
      const double want = d.apply(op, static_cast<double>(x));
      EXPECT_NEAR(f.apply(op, x), want, 4e-6 * std::fabs(want)) << info(op).name << " " << x;
    }
}

// In a prime field functions are functions, apart by name and by key, and no constants.
TEST(Functions, UninterpretedInTheField) {
  const FieldDomain a(2147483647u, {}, 1), b(2147483647u, {}, 2);
  EXPECT_EQ(a.apply(OpKind::kExp, 17u), a.apply(OpKind::kExp, 17u));
  EXPECT_NE(a.apply(OpKind::kExp, 17u), a.apply(OpKind::kExp, 18u));
  EXPECT_NE(a.apply(OpKind::kExp, 17u), a.apply(OpKind::kTanh, 17u));
  EXPECT_NE(a.apply(OpKind::kExp, 17u), b.apply(OpKind::kExp, 17u));
  const auto sigmoid = a.apply(OpKind::kSigmoid, 12345u);
  EXPECT_EQ(a.apply(OpKind::kSilu, 12345u), a.apply(OpKind::kMul, 12345u, sigmoid));
  EXPECT_THROW(a.apply(OpKind::kMatmul, 1u), Unsupported);
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_program(text);
    return "accepted";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Malformed, OneSentenceWithItsPlace) {
  const std::string head = "program p\ndims m, k\ninput x: T[m, k] activation\n";
  // A cycle needs a value before it is defined.
  EXPECT_EQ(error_of(head + "%a = add(x, %b)\n%b = square(%a)\noutput y: T = %b\n"),
            "line 4, column 13: '%b' is used before line 5 defines it; values that depend on one "
            "another in a cycle have no order");
  EXPECT_EQ(error_of(head + "%a = add(x, %a)\noutput y: T = %a\n"),
            "line 4, column 13: '%a' is not defined");
  EXPECT_EQ(error_of(head + "%a = softmax(x)\noutput y: T = %a\n").substr(0, 52),
            "line 4, column 6: 'softmax' is not an operator; acce");
  EXPECT_EQ(error_of("program p\ndims m, k, n\ninput x: T[m, k] activation\n"
                     "input w: T[k, n] parameter\n%a = add(x, w)\noutput y: T = %a\n"),
            "line 5, column 6: operands of add each have an axis that the other lacks; broadcast "
            "one first");
  EXPECT_EQ(error_of(head + "%a = matmul(x, x, m)\n%b = square(x)\noutput y: T = %a\n"),
            "line 5, column 1: value %1 (square) is not used");
  EXPECT_EQ(error_of(head + "output y: T = x\noutput y: T = x\n"),
            "line 5, column 8: 'y' is declared twice");
  EXPECT_EQ(error_of("program p\ndims m, m\n"), "line 2, column 9: dim 'm' is declared twice");
  EXPECT_EQ(error_of(head + "%a = square(x)\n%a = square(x)\noutput y: T = %a\n"),
            "line 5, column 1: '%a' is defined twice");
  EXPECT_EQ(error_of(head).substr(0, 17), "line 1, column 1:");
}

TEST(Malformed, AbsurdDims) {
  const Program program = catalog_program("rmsnorm_linear");
  for (std::int64_t extent : {std::int64_t{1} << 40, std::int64_t{0}, std::int64_t{-3}}) {
    try {
      (void)make_workload(program, {{"m", extent}, {"k", 8}, {"n", 8}}, DType::kBF16);
      FAIL() << extent;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(extent)), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(
      (void)make_workload(program, {{"m", 1 << 30}, {"k", 1 << 30}, {"n", 8}}, DType::kBF16),
      UserError);
}

}  // namespace
}  // namespace tenon::ir
