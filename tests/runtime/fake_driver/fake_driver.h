// What the stand-in for the CUDA driver records; tests read it through symbols of its library.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::test {

struct FakeLaunch {
  std::string entry;  // ends in _N: N parameters
  std::array<unsigned, 3> grid{}, block{}, cluster{};
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  bool dependent = false;
  std::vector<std::uint64_t> parameters;  // the first 8 bytes of each
};

struct FakeRecord {
  std::vector<FakeLaunch> launches;
  int allocations = 0;                      // of device memory
  int live = 0;                             // allocations not yet freed
  int encodings = 0;                        // of tensor maps
  std::vector<std::size_t> fills;           // bytes of memsets in streams other than the default
  std::map<void*, std::uint64_t> captures;  // streams that are being captured, and in which capture
  int compute_major = 9, compute_minor = 0;
  int module_result = 0;  // a CUresult that loading a cubin ends with
  bool recording = true;  // false: launches are counted by nobody and allocate nothing
};

}  // namespace tenon::test

extern "C" tenon::test::FakeRecord* tenon_fake_record();
