#include "cubin_text.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tenon::test {

namespace {

template <class T>
T at(const std::string& file, std::size_t offset) {
  if (offset > file.size() || sizeof(T) > file.size() - offset)
    throw std::runtime_error("a cubin that ends early");
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::string cubin_text(const std::string& cubin, const std::vector<std::string>& entries) {
  const auto header = at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    throw std::runtime_error("a cubin that is no 64-bit ELF file");
  auto section = [&](std::size_t i) {
    return at<Elf64_Shdr>(cubin, header.e_shoff + i * header.e_shentsize);
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  std::string text;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::size_t name = names.sh_offset + s.sh_name;
    if (name >= cubin.size() || cubin.compare(name, 6, ".text.") != 0) continue;
    const std::string entry = cubin.c_str() + name + 6;
    if (!entries.empty() && std::find(entries.begin(), entries.end(), entry) == entries.end())
      continue;
    if (s.sh_offset > cubin.size() || s.sh_size > cubin.size() - s.sh_offset)
      throw std::runtime_error("a cubin that ends early");
    text += cubin.substr(s.sh_offset, s.sh_size);
  }
  if (text.empty()) throw std::runtime_error("a cubin without code");
  return text;
}

}  // namespace tenon::test
