// Reads the text fixtures of these tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ir/mugraph.h"
#include "ir/program.h"

namespace tenon::verifier::testing {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Names without the extension, sorted.
inline std::vector<std::string> fixture_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".mugraph") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline ir::MuGraph read_mugraph(const std::string& folder, const std::string& name) {
  return ir::parse_mugraph(read_text(folder + "/" + name + ".mugraph"));
}

}  // namespace tenon::verifier::testing
