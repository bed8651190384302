// A program that carries its tuned kernels: no database file is needed where it runs.
//   tenon optimize rmsnorm_linear …; tenon db pack pack.db
//   CMake: find_package(tenon), tenon_embed(embedded_pack pack.db)
//   embedded_pack [K N]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

extern "C" const unsigned char tenon_pack[];
extern "C" const unsigned long long tenon_pack_size;

int main(int argc, char** argv) try {
  const std::size_t m = 7, k = argc > 2 ? std::strtoul(argv[1], nullptr, 10) : 576,
                    n = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 960;
  std::vector<float> x(m * k), g(k), w(k * n), y(m * n);
  for (auto* values : {&x, &g, &w})
    for (std::size_t i = 0; i < values->size(); ++i)
      (*values)[i] = static_cast<float>(i * 7919 % 31) / 16 - 1;

  tenon::Library library(tenon_pack, tenon_pack_size, "host");
  const void* inputs[] = {nullptr, g.data(), w.data()};
  tenon::Kernel kernel = library.bind(
      "rmsnorm_linear", "m=16,k=" + std::to_string(k) + ",n=" + std::to_string(n), "fp32", inputs);
  kernel.launch(x.data(), y.data(), static_cast<std::int64_t>(m));

  double worst = 0;
  for (std::size_t i = 0; i < m; ++i) {
    double squares = 0;
    for (std::size_t l = 0; l < k; ++l) squares += double{x[i * k + l]} * x[i * k + l];
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += double{x[i * k + l]} * g[l] * w[l * n + j];
      const double want = sum / std::sqrt(squares / static_cast<double>(k) + 1e-6);
      const double error = std::abs(y[i * n + j] - want) / (1 + std::abs(want));
      if (!(error <= worst)) worst = error;  // a NaN counts
    }
  }
  std::printf("%llu bytes of kernels inside, on %s: worst error %.2g\n", tenon_pack_size,
              library.device().c_str(), worst);
  return worst <= 1e-4 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "embedded_pack: %s\n", e.what());
  return 1;
}
