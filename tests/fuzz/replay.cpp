// Runs a fuzzer's entry on every file of the folders named, and on what a few edits make of it, so
// that the corpus is tested without libFuzzer.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& bytes) {
  alarm(20);  // a hang ends the test
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kEdits = 60;
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream in(path, std::ios::binary);
      const std::string sound{std::istreambuf_iterator<char>(in), {}};
      run(sound);
      std::mt19937_64 random(files++);
      for (int edit = 0; edit < kEdits && !sound.empty(); ++edit) {
        std::string bytes = sound;
        if (edit % 4 == 0)
          bytes.resize(random() % bytes.size());
        else
          for (int flips = edit % 4; flips > 0; --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        run(bytes);
      }
    }
  }
  std::printf("%zu inputs and %d edits of each\n", files, kEdits);
  return files > 0 ? 0 : 1;
}
