// The launch plan: all that the runtime needs to execute a candidate, with no compiler.
// Code generation emits it, the tuning database stores it, the runtime executes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"

namespace tenon::ir {

inline constexpr int kPlanVersion = 1;

// A non-negative integer expression in the dims of the workload, in the text form
//   expr := integer | dim name | ceildiv(expr, expr) | min(expr, expr) | max(expr, expr)
//         | expr + expr | expr * expr | ( expr )
// where * binds tighter than +; parsed once and evaluated without allocation. Overflow,
// a division by zero, negative constants and unknown names throw UserError.
class SizeExpr {
 public:
  SizeExpr() : SizeExpr(std::int64_t{0}) {}
  SizeExpr(std::int64_t value);  // NOLINT: a constant is an expression
  static SizeExpr parse(const std::string& text, const std::vector<std::string>& dims);
  std::int64_t evaluate(const std::int64_t* extents) const;  // by DimId
  bool depends_on(int dim) const;                            // by DimId
  const std::string& text() const { return text_; }
  friend bool operator==(const SizeExpr& a, const SizeExpr& b) { return a.text_ == b.text_; }

 private:
  enum class Code : std::uint8_t { kValue, kDim, kAdd, kMul, kCeilDiv, kMin, kMax };
  struct Step {
    Code code;
    std::int64_t value;
  };
  std::vector<Step> steps_;  // reverse Polish
  std::string text_;
  friend class SizeExprParser;
};

// What a buffer of the plan is bound to.
enum class BufferRole : std::uint8_t {
  kActivation,  // the caller's, per launch
  kParameter,   // the caller's, at prepare (and per launch if a main launch reads it)
  kPrepared,    // made by prepare, owned by the executable
  kWorkspace,   // scratch owned by the executable; zero-filled once after allocation
  kOutput,      // the caller's, per launch
};

struct Buffer {
  std::string name;
  BufferRole role = BufferRole::kActivation;
  DType dtype = DType::kF32;  // bound, never kElem
  SizeExpr elements;          // may depend on m only for activations, outputs, workspace
  bool in_main = false;       // some main launch uses it
};

// A CUtensorMap to encode over a buffer: rank-2, row-major, zero fill outside.
struct TensorMapSpec {
  int buffer = -1;
  SizeExpr rows, columns, row_stride;  // elements
  SizeExpr box_rows;                   // 1 to 256, as box_columns
  int box_columns = 0;
  int swizzle_bytes = 0;  // 0, 32, 64 or 128
  int l2_promotion_bytes = 0;
};

enum class ArgKind : std::uint8_t { kBuffer, kInt32, kInt64, kFloat, kTensorMap };
struct Arg {
  ArgKind kind = ArgKind::kBuffer;
  int buffer = -1;      // kBuffer, by index in LaunchPlan::buffers
  SizeExpr integer;     // kInt32, kInt64
  double number = 0;    // kFloat: passed as float
  int tensor_map = -1;  // kTensorMap: index in LaunchPlan::tensor_maps
};

enum class LaunchKind : std::uint8_t {
  kCubin,    // a kernel of one of the plan's modules
  kLibrary,  // a cuBLASLt product (buffers a, b, out)
  kHost,  // kernel `entry` (its index, decimal; "prepare" for the prepare graph) of the µGraph text
  kFill,  // sets `fill_buffer` to zero bytes
};

struct Launch {
  LaunchKind kind = LaunchKind::kCubin;
  int module = -1;  // index in LaunchPlan::modules
  std::string entry;
  SizeExpr grid[3] = {1, 1, 1};
  SizeExpr block[3] = {1, 1, 1};
  int cluster[3] = {1, 1, 1};
  std::int64_t shared_bytes = 0;  // dynamic
  std::vector<Arg> args;
  bool dependent = false;  // may start before its predecessor has ended (griddepcontrol)
  // kLibrary: out[m,n] = a[m,k] · b, row-major; `b_transposed`: b is [n,k].
  int a = -1, b = -1, out = -1;
  SizeExpr m, n, k;
  bool b_transposed = false;
  int algorithm =
      0;  // which of the library's suggestions, in its order; the last where it has fewer
  int fill_buffer = -1;
};

struct Module {
  std::string cubin_sha256;  // the cubin itself is stored beside the plan
  std::string target;        // "sm_90a"
};

struct LaunchPlan {
  int version = kPlanVersion;
  std::string workload_key;  // ir::key(workload)
  std::string program;
  std::vector<std::string> dims;
  Extents extents;                    // as tuned; dim "m" may differ at launch
  int dynamic_dim = 0;                // index of "m", or -1
  std::int64_t m_min = 1, m_max = 1;  // inclusive interval of the dynamic dim
  DType dtype = DType::kBF16;
  std::string device_class;  // "host", "sm_90a", "sm_80" …
  bool dependent_launch = false;
  std::string mugraph;          // text form: host launches execute it, explain shows it
  std::string schedule;         // text form
  std::vector<Buffer> buffers;  // program inputs, then outputs, in signature order, then the rest
  int input_count = 0, output_count = 0;
  std::vector<TensorMapSpec> tensor_maps;
  std::vector<Module> modules;
  std::vector<Launch> prepare;
  std::vector<Launch> main;
  std::vector<double> attributes;  // bound values in signature order (host launches)
};

// JSON text; parse(print(p)) prints the same. `parse_plan` treats its input as
// untrusted: sizes, indices and versions are checked, and it throws UserError.
std::string print(const LaunchPlan& plan);
LaunchPlan parse_plan(const std::string& text);

// What parse_plan checks beyond the form: roles and indices of buffers, sizes at m_min, as
// tuned and at m_max, launch limits. Throws UserError that names the field.
void validate(const LaunchPlan& plan);

}  // namespace tenon::ir
