// pack DATABASE FILE: what the Python tests open as a packed database.
#include "cache/pack.h"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  return tenon::cache::pack_database(argv[1], argv[2]).plans > 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "pack: %s\n", e.what());
  return 1;
}
