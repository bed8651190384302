// Schedules of the tensor-core product as text, and the kernel source and launch geometry that
// follow from one. Shared by the bench's compiler and its launcher.
#pragma once

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace gemm_bench {

// One schedule: key=value pairs, defaults left out of the name.
//   tm tn st   tile rows, tile columns, stages      co pp        consumers, ping-pong
//   cm cn sk   cluster along m, along n, split k    ra gr        raster m|n, group
//   hx hw hy   cache hints n|f|l                    pr           producer registers
//   pdl late   dependent launch, late trigger       stats        none|ext|rows|slices|tile|spare
//   sl rs      slices, row slots                    rot          walk: 0 straight, 1 own slice
//              first, 2 own part of the tail first      packed       packed weights
//   wide       stores: 0 narrow, 1 staged, 2 shuffled   type         bf16|fp16
//   form       rms|layer
// and what is the launcher's business: promo (L2 promotion of the tensor maps, 128|256), even (rows
// shared out evenly over the tiles, 0|1).
struct Schedule {
  std::map<std::string, std::string> values;

  static const std::map<std::string, std::string>& defaults() {
    static const std::map<std::string, std::string> table = {
        {"tm", "128"},     {"tn", "128"},    {"st", "4"},     {"co", "2"},   {"pp", "0"},
        {"cm", "1"},       {"cn", "1"},      {"sk", "1"},     {"ra", "m"},   {"gr", "8"},
        {"hx", "n"},       {"hw", "n"},      {"hy", "n"},     {"pr", "40"},  {"pdl", "0"},
        {"stats", "none"}, {"sl", "8"},      {"packed", "0"}, {"wide", "1"}, {"type", "bf16"},
        {"form", "rms"},   {"promo", "256"}, {"late", "0"},   {"rs", "3"},   {"rot", "0"},
        {"even", "1"}};
    return table;
  }
  std::string text(const std::string& key) const {
    auto it = values.find(key);
    return it != values.end() ? it->second : defaults().at(key);
  }
  int number(const std::string& key) const { return std::stoi(text(key)); }

  std::string name() const {
    std::string out;
    for (const char* key : {"type", "form", "tm",     "tn",   "st",    "co",  "pp",   "cm",    "cn",
                            "sk",   "ra",   "gr",     "hx",   "hw",    "hy",  "pr",   "stats", "sl",
                            "rot",  "rs",   "packed", "wide", "promo", "pdl", "late", "even"}) {
      const bool always = std::string(key) == "tm" || std::string(key) == "tn" ||
                          std::string(key) == "st" || std::string(key) == "stats";
      if (!always && text(key) == defaults().at(key)) continue;
      if (!out.empty()) out += ' ';
      out += std::string(key) + '=' + text(key);
    }
    return out;
  }

  int sums() const { return text("stats") == "none" ? 0 : text("form") == "layer" ? 2 : 1; }
  int threads() const { return 128 * (number("co") + 1); }
  int cluster() const { return number("cm") * number("cn") * number("sk"); }
  int team() const { return number("pp") ? 1 : number("co"); }
  bool reads_sums() const { return sums() > 0 && text("stats") != "tile"; }
  bool exchanges_sums() const {
    return text("stats") == "rows" || text("stats") == "slices" || text("stats") == "spare";
  }

  int shared_bytes() const {
    const int tm = number("tm"), tn = number("tn"), sk = number("sk"), co = number("co");
    const int blocks = tm / 64 / team();
    int bytes = number("st") * (tm + tn) * 128;
    if (number("wide") == 1) bytes += co * 4 * 2048;
    bytes += (sk - 1) * blocks * (tn / 8 / sk * 16 + 2 * sums() * 4) * 128 * co;
    if (reads_sums()) bytes += 2 * tm * sums() * 4;
    const bool rows = text("stats") == "rows";
    if (rows) bytes += 3 * number("rs") * 1024;
    return (bytes + 7) / 8 * 8 + 8 * (2 * number("st") + 12 + (rows ? 3 * number("rs") : 0));
  }

  // Why the schedule is not legal for this problem; empty when it is.
  std::string rejected(int m, int n, int k) const {
    const int tm = number("tm"), tn = number("tn"), co = number("co"), st = number("st");
    const int cm = number("cm"), cn = number("cn"), sk = number("sk");
    if (tm % 64 || tm < 64 || tm > 256) return "tile_m is 64, 128, 192 or 256";
    if (tn % 8 || tn < 8 || tn > 256) return "tile_n is a multiple of 8 up to 256";
    if (co < 1 || co > 3) return "1 to 3 consumers";
    if (number("pp") && co != 2) return "ping-pong has two consumers";
    if (tm % (64 * team())) return "a warpgroup has whole blocks of 64 rows";
    if (tm / 64 / team() * tn / 2 > 200) return "more than 200 accumulators a thread";
    if (st < 2) return "at least two stages";
    if (tm % (8 * cn)) return "tile_m is a multiple of 8 cluster_n";
    if (tn % (8 * cm)) return "tile_n is a multiple of 8 cluster_m";
    if (tn % (8 * sk)) return "tile_n is a multiple of 8 split_k";
    if (cluster() > 8) return "cluster of more than 8 blocks";
    if (sk > 1 && number("pp")) return "split k is cooperative";
    if (sk > 1 && exchanges_sums() &&
        cluster_tiles(m, n) * cluster() > (cluster() > 4   ? 112
                                           : cluster() > 2 ? 120
                                                           : 132)) {
      return "rows summed once need all blocks resident";
    }
    if (text("stats") == "spare" && 2 * k > (tm + tn) * 128) return "a row is larger than a stage";
    if (text("stats") == "slices" &&
        (number("sl") < cn * sk || number("sl") % 4 || number("sl") % sk)) {
      return "a multiple of 4 slices, as many in each part, at least cluster_n";
    }
    if (text("stats") == "slices" && sk > 1 && (k + 63) / 64 < number("sl")) {
      return "a part has fewer k steps than slices";
    }
    if ((k + 63) / 64 < std::max(sk, cn)) return "fewer k steps than parts";
    if (k % 8) return "rows of X are 16-byte aligned: k is a multiple of 8";
    if (number("wide") && n % 8) return "wide stores: n is a multiple of 8";
    if (shared_bytes() > 232448) return "more shared memory than a block has";
    return "";
  }

  int cluster_tiles(int m, int n) const {
    auto up = [](int a, int b) { return (a + b - 1) / b; };
    return up(m, number("tm") * number("cm")) * up(n, number("tn") * number("cn"));
  }
  // Rows of X that a tile takes (Operands::tile_rows).
  int tile_rows(int m) const {
    auto up = [](int a, int b) { return (a + b - 1) / b; };
    const int unit = 8 * number("cn"), tiles = up(m, number("tm") * number("cm")) * number("cm");
    return number("even") ? unit * up(m, unit * tiles) : number("tm");
  }
  int padded_rows(int m) const {
    const int unit = number("tm") * number("cm");
    return (m + unit - 1) / unit * unit;
  }
  std::size_t workspace_bytes(int m) const {
    const int rows = padded_rows(m);
    const int slots = text("stats") == "slices" ? 1 + number("sl") : 1;
    return 16 + std::size_t(rows) * std::max(1, sums()) * slots * 8;
  }

  std::string source() const {
    auto hint = [&](const char* key) {
      const std::string h = text(key);
      return std::string("CacheHint::") + (h == "f"   ? "kEvictFirst"
                                           : h == "l" ? "kEvictLast"
                                                      : "kNone");
    };
    const std::map<std::string, std::string> statistics = {
        {"none", "kNone"},         {"ext", "kExternal"}, {"rows", "kGlobalRows"},
        {"slices", "kTileSlices"}, {"tile", "kTile"},    {"spare", "kSpareBlocks"}};
    std::ostringstream s;
    s << "#include \"device/gemm/gemm.cuh\"\n"
         "using namespace tenon::device;\nusing namespace tenon::device::gemm;\n"
         "struct Config : Defaults {\n";
    auto constant = [&](const char* type, const char* name, const std::string& value) {
      s << "  static constexpr " << type << " " << name << " = " << value << ";\n";
    };
    constant("int", "kTileM", text("tm"));
    constant("int", "kTileN", text("tn"));
    constant("int", "kStages", text("st"));
    constant("int", "kConsumers", text("co"));
    constant("bool", "kPingPong", text("pp"));
    constant("int", "kClusterM", text("cm"));
    constant("int", "kClusterN", text("cn"));
    constant("int", "kSplitK", text("sk"));
    constant("Raster", "kRaster", text("ra") == "m" ? "Raster::kAlongM" : "Raster::kAlongN");
    constant("int", "kRasterGroup", text("gr"));
    constant("CacheHint", "kHintX", hint("hx"));
    constant("CacheHint", "kHintW", hint("hw"));
    constant("CacheHint", "kHintY", hint("hy"));
    constant("int", "kProducerRegisters", text("pr"));
    constant("bool", "kDependentLaunch", text("pdl"));
    constant("bool", "kLateTrigger", text("late"));
    constant("Statistics", "kStatistics", "Statistics::" + statistics.at(text("stats")));
    constant("int", "kSlices", text("sl"));
    const char* walks[] = {"kStraight", "kOwnFirst", "kOwnTailFirst"};
    constant("Walk", "kWalk", std::string("Walk::") + walks[number("rot")]);
    constant("int", "kRowSlots", text("rs"));
    constant("bool", "kPackedWeights", text("packed"));
    const char* stores[] = {"kNarrow", "kStaged", "kShuffled"};
    constant("Stores", "kStores", std::string("Stores::") + stores[number("wide")]);
    s << "};\n";
    if (text("form") == "rms") {
      s << R"(struct Stats {
  static constexpr int kCount = 1;
  static __device__ __forceinline__ void accumulate(float (&s)[1], float x) { s[0] += x * x; }
};
struct Epilogue {
  struct Args { float inverse_k, epsilon; const float* column_sums; const float* bias; };
  struct Row { float r; };
  static __device__ __forceinline__ Row row(const Args& a, int, const float* s) {
    return {Config::kStatistics == Statistics::kNone ? 1.f : rsqrtf(s[0] * a.inverse_k + a.epsilon)};
  }
  static __device__ __forceinline__ float apply(const Args&, const Row& r, float acc, int, int) {
    return acc * r.r;
  }
};
)";
    } else {
      s << R"(struct Stats {
  static constexpr int kCount = 2;
  static __device__ __forceinline__ void accumulate(float (&s)[2], float x) {
    s[0] += x;
    s[1] += x * x;
  }
};
struct Epilogue {
  struct Args { float inverse_k, epsilon; const float* column_sums; const float* bias; };
  struct Row { float mean, r; };
  static __device__ __forceinline__ Row row(const Args& a, int, const float* s) {
    const float mean = s[0] * a.inverse_k;
    return {mean, rsqrtf(s[1] * a.inverse_k - mean * mean + a.epsilon)};
  }
  static __device__ __forceinline__ float apply(const Args& a, const Row& r, float acc, int, int n) {
    return (acc - r.mean * a.column_sums[n]) * r.r + a.bias[n];
  }
};
)";
    }
    const char* type = text("type") == "bf16" ? "Bf16" : "Fp16";
    s << "using T = " << type << ";\n"
      << "extern \"C\" __global__ void __launch_bounds__(Plan<Config, T, Stats>::kThreads, 1)\n"
         "kernel(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap "
         "w_map,\n"
         "       const T* x, long long x_stride, const T* packed_w, T* y, long long y_stride,\n"
         "       const float* row_sums, unsigned* workspace, int m, int n, int k, float "
         "inverse_k,\n"
         "       float epsilon, const float* column_sums, const float* bias, int tile_rows) {\n"
         "  run<Config, T, Stats, Epilogue>(\n"
         "      x_map, w_map,\n"
         "      Operands<T>{x, x_stride, packed_w, y, y_stride, row_sums, workspace, m, n, k,\n"
         "                  tile_rows},\n"
         "      Epilogue::Args{inverse_k, epsilon, column_sums, bias});\n"
         "}\n";
    return s.str();
  }
};

// A line of key=value words; a value may be a comma list, which multiplies.
inline std::vector<Schedule> parse_schedules(const std::string& line) {
  std::vector<Schedule> all(1);
  std::istringstream words(line);
  std::string word;
  while (words >> word) {
    const auto eq = word.find('=');
    const std::string key = word.substr(0, eq);
    if (eq == std::string::npos || !Schedule::defaults().count(key)) {
      throw std::runtime_error("schedule: unknown word '" + word + "'");
    }
    std::vector<Schedule> next;
    std::istringstream list(word.substr(eq + 1));
    std::string value;
    while (std::getline(list, value, ',')) {
      for (Schedule s : all) {
        s.values[key] = value;
        next.push_back(s);
      }
    }
    all = next;
  }
  return all;
}

}  // namespace gemm_bench
