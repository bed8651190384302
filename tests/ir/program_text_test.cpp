// Programs in the text form: round trips, canonical text, the catalog, and errors with their
// place.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/program.h"
#include "ir/sha256.h"
#include "rmsnorm.h"

namespace tenon::ir {
namespace {

std::string error(const std::string& text) {
  try {
    parse_program(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

constexpr const char* kHead =
    "program p\ndims m, k\nattribute eps = 1e-6\ninput x: T[m, k] activation\n";

TEST(ProgramText, CanonicalTextOfTheCatalogProgram) {
  EXPECT_EQ(print(catalog_program("rmsnorm_linear")),
            "program rmsnorm_linear\n"
            "dims m, k, n\n"
            "attribute eps = 1e-6\n"
            "input x: T[m, k] activation\n"
            "input g: T[k] parameter\n"
            "input w: T[k, n] parameter\n"
            "%0 = square(x)\n"
            "%1 = sum(%0, k)\n"
            "%2 = const(1/k)\n"
            "%3 = mul(%1, %2)\n"
            "%4 = const(eps)\n"
            "%5 = add(%3, %4)\n"
            "%6 = rsqrt(%5)\n"
            "%7 = mul(x, %6)\n"
            "%8 = mul(%7, g)\n"
            "%9 = cast(%8, T)\n"
            "%10 = matmul(%9, w, k)\n"
            "%11 = cast(%10, T)\n"
            "output y: T = %11\n");
}

TEST(ProgramText, TextAndFactoriesMakeTheSameProgram) {
  EXPECT_EQ(catalog_program("rmsnorm_linear"), testing::rmsnorm_linear());
}

TEST(ProgramText, EveryCatalogProgramRoundTrips) {
  ASSERT_FALSE(catalog().empty());
  for (const CatalogEntry& entry : catalog()) {
    const Program p = catalog_program(entry.name);
    EXPECT_EQ(p.signature.program, entry.name);
    EXPECT_FALSE(entry.formula.empty());
    EXPECT_FALSE(entry.found_in.empty());
    EXPECT_EQ(parse_program(print(p)), p);
    EXPECT_EQ(identity(p), sha256_hex(print(p)));
    EXPECT_NO_THROW(validate(p));
  }
}

TEST(ProgramText, UnknownProgramNamesTheKnownOnes) {
  try {
    catalog_program("rmsnorm");
    FAIL();
  } catch (const UserError& e) {
    std::string known;
    for (const CatalogEntry& entry : catalog()) known += entry.name + ", ";
    EXPECT_EQ(std::string(e.what()),
              "program is 'rmsnorm'; accepted: " + known + "or a file in the text form");
    EXPECT_NE(known.find("layernorm_linear, "), std::string::npos);
  }
}

TEST(ProgramText, NamesOfValuesSpaceAndCommentsDoNotMatter) {
  const std::string a = std::string(kHead) +
                        "%s = sum(x, k)\n%e = const(eps)\n%r = add(%s, %e)\noutput y: fp32 = %r\n";
  const std::string b =
      "# a comment\r\n\n  program   p # more\ndims m,k\r\nattribute eps=0.000001\ninput "
      "x:T[m,k]activation\n\n"
      "%0=sum( x , k )\n%1=const( 1/1000000*1000000*eps )\n\t%2=add(%0,%1)\noutput y:fp32=%2";
  EXPECT_EQ(parse_program(a), parse_program(b));
  EXPECT_EQ(identity(parse_program(a)), identity(parse_program(b)));
}

TEST(ProgramText, ConstantsRoundTrip) {
  const std::pair<const char*, const char*> cases[] = {
      {"1/k", "1/k"},
      {"k", "k"},
      {"eps", "eps"},
      {"0.5*eps/k", "0.5*eps/k"},
      {"1/3", "1/3"},
      {"k/3", "1/3*k"},
      {"2*k*k/eps/eps", "2*k^2/eps^2"},
      {"-1", "-1"},
      {"-k", "-1*k"},
      {"k/k", "1"},
      {"k^-2", "1/k^2"},
      {"1/k^-1", "k"},
      {"m*k*eps", "m*k*eps"},
      {"0", "0"},
      {"1e-6/1e-6", "1"},
      {"3/m/k", "3/m/k"},
      {"-0.25/k", "-0.25/k"},
      {"k^0", "1"},
      {"eps^64", "eps^64"},
  };
  for (const auto& [given, canonical] : cases) {
    const std::string text =
        std::string(kHead) + "%0 = const(" + given +
        ")\n%1 = const(eps)\n%2 = mul(%0, %1)\n%3 = mul(x, %2)\noutput y: T = %3\n";
    const Program p = parse_program(text);
    EXPECT_NE(print(p).find(std::string("%0 = const(") + canonical + ")\n"), std::string::npos)
        << given << "\n"
        << print(p);
    EXPECT_EQ(parse_program(print(p)), p) << given;
  }
}

TEST(ProgramText, EveryOperatorAndTypeRoundTrips) {
  const std::string text =
      "program all\ndims m, k, n, h\nattribute a = 1/3\nattribute b = 12.5\n"
      "input x: bf16[m, k] activation\ninput w: fp16[k, n] parameter\ninput s: fp32[] parameter\n"
      "%0 = const(a*b)\n%1 = add(x, %0)\n%2 = sub(%1, s)\n%3 = mul(%2, %2)\n%4 = div(%3, x)\n%5 = "
      "square(%4)\n"
      "%6 = sqrt(%5)\n%7 = rsqrt(%6)\n%8 = sum(%7, k)\n%9 = matmul(%7, w, k)\n%10 = broadcast(%9, "
      "[n, h, m])\n"
      "%11 = cast(%10, fp16)\n%12 = cast(%8, T)\n%13 = cast(%9, fp32)\n"
      "output y: fp16 = %11\noutput z: T = %12\noutput q: bf16 = %13\noutput x2: T = x\n";
  const Program p = parse_program(text);
  EXPECT_EQ(parse_program(print(p)), p);
  EXPECT_EQ(print(p), text);
  EXPECT_EQ(p.signature.output_axes[0], (Axes{{2, kFull}, {3, kFull}, {0, kFull}}));
  EXPECT_EQ(p.signature.attributes.at("a"), (Rational{1, 3}));
}

TEST(ProgramText, ErrorsNameLineAndColumn) {
  const std::string head = kHead;
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1, column 1: expected 'program', found the end of the text"},
      {"mugraph p\n", "line 1, column 1: expected 'program', found 'mugraph'"},
      {"program\n",
       "line 1, column 8: expected the name of the program, found the end of the line"},
      {"program p\ndims m, m\n", "line 2, column 9: dim 'm' is declared twice"},
      {"program p\ndims m,\n",
       "line 2, column 8: expected the name of a dim, found the end of the line"},
      {"program p\ndims m\ndims k\n", "line 3, column 1: dims are declared twice"},
      {"program p\ndims m\nattribute m = 1\n", "line 3, column 11: 'm' is already a dim"},
      {"program p\nattribute e = 0\n", "line 2, column 15: '0' is not positive"},
      {"program p\nattribute e = -1\n", "line 2, column 15: expected a positive number, found '-'"},
      {"program p\nattribute e = 1e99\n", "line 2, column 15: '1e99' does not fit"},
      {"program p\ndims m\ninput x: T[q] activation\n",
       "line 3, column 12: 'q' is not a dim; accepted: m"},
      {"program p\ndims m\ninput x: T[m, m] activation\n",
       "line 3, column 15: dim 'm' stands on two axes"},
      {"program p\ndims m\ninput x: float[m] activation\n",
       "line 3, column 10: 'float' is not a type"},
      {"program p\ndims m\ninput x: T[m] weight\n",
       "line 3, column 15: expected 'activation' or 'parameter', found 'weight'"},
      {head + "input x: T[m] parameter\n", "line 5, column 7: 'x' is declared twice"},
      {head + "%0 = foo(x)\n", "line 5, column 6: 'foo' is not an operator; accepted: const, add"},
      {head + "%0 = square(%9)\n", "line 5, column 13: '%9' is not defined"},
      {head + "%0 = square(z)\n", "line 5, column 13: 'z' is not defined"},
      {head + "%0 = square(x)\n%0 = square(x)\n", "line 6, column 1: '%0' is defined twice"},
      {head + "%0 = square(%0)\n", "line 5, column 13: '%0' is not defined"},
      {head + "%0 = square(%1)\n\n  %10 = square(%0)\n %1 = sqrt(%0)\n",
       "line 5, column 13: '%1' is used before line 8 defines it; values that depend on one "
       "another in a cycle have no order"},
      {head + "%0 = add(x)\n", "line 5, column 11: expected ',', found ')'"},
      {head + "%0 = square(x, x)\n", "line 5, column 14: expected ')', found ','"},
      {head + "%0 = sum(x, m)\n%1 = sum(%0, m)\n",
       "line 6, column 6: sum is over a dim that its operand does not have"},
      {head + "%0 = sum(x, 3)\n", "line 5, column 13: expected a dim, found '3'"},
      {head + "%0 = matmul(x, x, eps)\n", "line 5, column 19: 'eps' is not a dim"},
      {head + "%0 = const(q)\n", "line 5, column 12: 'q' is neither a dim nor an attribute"},
      {head + "%0 = const(1/0)\n", "line 5, column 14: a constant divides by zero"},
      {head + "%0 = const(1e18*1e18)\n", "line 5, column 17: a product of constants does not fit"},
      {head + "%0 = const(k^65)\n",
       "line 5, column 14: an exponent is '65'; accepted: an integer from -64 to 64"},
      {head + "%0 = const(k^64*k)\n", "line 5, column 17: an exponent is 65"},
      {head + "%0 = broadcast(x, [m])\n", "line 5, column 6: broadcast must keep every axis"},
      {head + "%0 = broadcast(x, [m: grid, k])\n", "line 5, column 21: expected ']', found ':'"},
      {head + "%0 = square(x)\ninput z: T[m] activation\n",
       "line 6, column 1: inputs must come before the first operator"},
      {head + "output x: T = x\n", "line 5, column 8: 'x' is declared twice"},
      {head + "output y: T = %3\n", "line 5, column 15: '%3' is not defined"},
      {head, "line 1, column 1: the program has no output"},
      {head + "output y: T = x\n", "line 3, column 11: attribute 'eps' is not used"},
      {head + "%0 = square(x)\n%1 = const(eps)\n%2 = sqrt(%1)\noutput y: T = %0\n",
       "line 7, column 1: value %2 (sqrt) is not used"},
      {head + "input z: T[m] activation\n%1 = const(eps)\n%2 = mul(x, %1)\noutput y: T = %2\n",
       "line 5, column 7: input 'z' is not used"},
      {"program p\ndims m, q\ninput x: T[m] activation\noutput y: T = x\n",
       "line 2, column 9: dim 'q' is not used"},
      {head + "%0 = square(x) %1 = square(x)\n",
       "line 5, column 16: expected the end of the line, found '%1'"},
      {head + "}\n",
       "line 5, column 1: expected dims, attribute, input, output or a value such as %0, found "
       "'}'"},
      {head + "output y: T = x }\n", "line 5, column 17: expected a statement, found '}'"},
      {head + "%0 = square((((((x))))))\n", "line 5, column 13: expected a value, found '('"},
      {head + "% = square(x)\n", "line 5, column 1: expected a name after '%'"},
      {head + "%0 = square(x)$\n", "line 5, column 15: unexpected character '$'"},
      {head + "# ä ö\n  %0 = \xc3\xa4(x)\n", "line 6, column 8: unexpected byte 0xc3"},
      {"program p\ndims 3m\n", "line 2, column 6: '3m' is neither a number nor a name"},
  };
  for (const auto& [text, message] : cases) {
    const std::string got = error(text);
    EXPECT_EQ(got.substr(0, message.size()), message) << "in:\n" << text << "got: " << got;
  }
}

TEST(ProgramText, ColumnsCountCharactersNotBytes) {
  // "ä" in a comment of an earlier line must not shift anything; there is no way to have it
  // before a token of the same line.
  EXPECT_EQ(error("program p # äöü\ndims m, m\n"), "line 2, column 9: dim 'm' is declared twice");
}

TEST(ProgramText, NulBytesAreRefusedEverywhere) {
  EXPECT_EQ(error(std::string("program p\0\n", 11)), "line 1, column 10: unexpected byte 0x00");
  EXPECT_EQ(error(std::string("program p # a\0b\n", 16)),
            "line 1, column 14: unexpected byte 0x00");
}

TEST(ProgramText, HugeTextsAreRefusedOrReadInLinearTime) {
  EXPECT_NE(error(std::string(2u << 20, 'a')).find("accepted: at most 1048576"), std::string::npos);
  EXPECT_NE(error(std::string(1u << 20, 'a')).find("has 1048576 bytes; accepted: at most 128"),
            std::string::npos);
  EXPECT_NE(error("program p\n" + std::string(1000000, '\n') + "?").find("line 1000002, column 1"),
            std::string::npos);
  EXPECT_NE(error("program p\n" + std::string(1000000, '(')).find("line 2, column 1"),
            std::string::npos);
  std::string many = kHead;
  for (int i = 0; i < 40000; ++i) many += "%v" + std::to_string(i) + " = square(x)\n";
  EXPECT_NE(error(many).find("more than 4096 operators in one graph"), std::string::npos);
  std::string inputs = "program p\ndims m\n";
  for (int i = 0; i < 30000; ++i) inputs += "input x" + std::to_string(i) + ": T[m] activation\n";
  EXPECT_NE(error(inputs).find("more than 256 inputs"), std::string::npos);
  std::string dims = "program p\ndims d";
  for (int i = 0; i < 100000; ++i) dims += ", d" + std::to_string(i);
  EXPECT_NE(error(dims).find("more than 64 dims"), std::string::npos);
  std::string factors = std::string(kHead) + "%0 = const(k";
  for (int i = 0; i < 100000; ++i) factors += "/k*k";
  EXPECT_NE(error(factors + ")\n").find("the program has no output"), std::string::npos);
  std::string chain = std::string(kHead) + "%0 = const(eps)\n%1 = mul(x, %0)\n";
  for (int i = 2; i < 4096; ++i)
    chain += "%" + std::to_string(i) + " = square(%" + std::to_string(i - 1) + ")\n";
  const Program p = parse_program(chain + "output y: T = %4095\n");
  EXPECT_EQ(parse_program(print(p)), p);
}

TEST(ProgramText, ValidateFindsWhatTheFactoriesCannot) {
  const Program good = testing::rmsnorm_linear();
  EXPECT_NO_THROW(validate(good));
  auto expect_bad = [&](auto&& change, const std::string& part) {
    Program p = good;
    change(p);
    try {
      validate(p);
      ADD_FAILURE() << part;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  expect_bad([](Program& p) { p.signature.outputs.clear(), p.signature.output_axes.clear(); },
             "no output");
  expect_bad([](Program& p) { p.signature.outputs[0].value = kNoValue; }, "has no value");
  expect_bad([](Program& p) { p.signature.outputs[0].value = 1000; }, "has no value");
  expect_bad([](Program& p) { p.signature.outputs[0].name = "x"; }, "declared twice");
  expect_bad([](Program& p) { p.signature.output_axes[0].pop_back(); }, "other axes");
  expect_bad([](Program& p) { p.signature.dims[1] = "m"; }, "declared twice");
  expect_bad([](Program& p) { p.signature.dims.pop_back(); }, "declared dims");
  expect_bad([](Program& p) { p.signature.dims.push_back("q"); }, "not used");
  expect_bad([](Program& p) { p.signature.attributes.clear(); }, "does not declare");
  expect_bad([](Program& p) { p.signature.attributes["m"] = {1, 1}; }, "also a dim");
  expect_bad([](Program& p) { p.signature.attributes["eps"] = {0, 1}; }, "not positive");
  expect_bad([](Program& p) { p.signature.inputs.pop_back(); }, "inputs");
  expect_bad([](Program& p) { p.signature.inputs[0].name = "a b"; }, "not a name");
  expect_bad([](Program& p) { p.graph.unary(OpKind::kSquare, 0); }, "not used");
}

}  // namespace
}  // namespace tenon::ir
