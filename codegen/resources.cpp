#include "codegen/resources.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <sstream>

namespace tenon::codegen {

namespace {

// Reads of an untrusted size, at any alignment.
template <class T>
T read_at(const std::string& bytes, std::uint64_t offset) {
  TENON_CHECK(offset + sizeof(T) <= bytes.size() && offset + sizeof(T) > offset,
              "a cubin is cut short");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string text_at(const std::string& bytes, std::uint64_t offset) {
  TENON_CHECK(offset < bytes.size(), "a cubin is cut short");
  return std::string(bytes.c_str() + offset);
}

class Cubin {
 public:
  explicit Cubin(const std::string& bytes) : bytes_(bytes) {
    auto header = read_at<Elf64_Ehdr>(bytes, 0);
    TENON_CHECK(
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64,
        "not a cubin");
    for (int i = 0; i < header.e_shnum; ++i)
      sections_.push_back(read_at<Elf64_Shdr>(
          bytes, header.e_shoff + static_cast<std::uint64_t>(i) * header.e_shentsize));
    TENON_CHECK(header.e_shstrndx < sections_.size(), "a cubin without section names");
    names_ = sections_[header.e_shstrndx];
  }

  std::string name(const Elf64_Shdr& section) const {
    return text_at(bytes_, names_.sh_offset + section.sh_name);
  }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  // Names of the symbol table, by index.
  std::vector<std::string> symbols() const {
    std::vector<std::string> out;
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB || s.sh_link >= sections_.size()) continue;
      for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.sh_size; at += sizeof(Elf64_Sym)) {
        auto symbol = read_at<Elf64_Sym>(bytes_, s.sh_offset + at);
        out.push_back(text_at(bytes_, sections_[s.sh_link].sh_offset + symbol.st_name));
      }
    }
    return out;
  }

  // (attribute, symbol index, value) of the file's .nv.info section: records of a format byte,
  // an attribute byte and a payload.
  template <class F>
  void for_each_info(F&& f) const {
    constexpr std::uint8_t kSized = 4;  // the payload's size follows in two bytes
    for (const Elf64_Shdr& s : sections_) {
      if (name(s) != ".nv.info") continue;
      for (std::uint64_t at = 0; at + 4 <= s.sh_size;) {
        auto format = read_at<std::uint8_t>(bytes_, s.sh_offset + at);
        auto attribute = read_at<std::uint8_t>(bytes_, s.sh_offset + at + 1);
        auto size = read_at<std::uint16_t>(bytes_, s.sh_offset + at + 2);
        if (format == kSized && size >= 8)
          f(attribute, read_at<std::uint32_t>(bytes_, s.sh_offset + at + 4),
            read_at<std::uint32_t>(bytes_, s.sh_offset + at + 8));
        at += format == kSized ? 4u + size : 4u;
      }
    }
  }

 private:
  const std::string& bytes_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
};

// ptxas says, for each function: "Function properties for <name>" and on the next line
// "<n> bytes stack frame, <n> bytes spill stores, <n> bytes spill loads", after a prefix that
// differs between versions.
std::map<std::string, int> spills_of(const std::string& log) {
  std::map<std::string, int> out;
  std::istringstream lines(log);
  std::string line, function;
  const std::string properties = "Function properties for ";
  while (std::getline(lines, line)) {
    std::size_t at = line.find(properties);
    if (at != std::string::npos) {
      function = line.substr(at + properties.size());
      continue;
    }
    int stack = 0, stores = 0, loads = 0;
    std::size_t begin = line.find_first_of("0123456789");
    if (begin != std::string::npos && !function.empty() &&
        std::sscanf(line.c_str() + begin,
                    "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack,
                    &stores, &loads) == 3)
      out[function] = stores + loads;
  }
  return out;
}

}  // namespace

std::vector<KernelResources> resources_of(const std::string& cubin, const std::string& log) {
  constexpr std::uint8_t kRegisterCount = 0x2f, kFrameSize = 0x11;  // EIATTR_REGCOUNT, _FRAME_SIZE
  Cubin elf(cubin);
  std::vector<std::string> symbols = elf.symbols();
  std::map<std::string, KernelResources> found;
  for (const Elf64_Shdr& s : elf.sections()) {
    std::string name = elf.name(s);
    if (name.rfind(".text.", 0) == 0) found[name.substr(6)].entry = name.substr(6);
  }
  for (const Elf64_Shdr& s : elf.sections()) {
    const std::string prefix = ".nv.shared.";
    std::string name = elf.name(s);
    if (name.rfind(prefix, 0) != 0) continue;
    auto it = found.find(name.substr(prefix.size()));
    if (it != found.end()) it->second.static_shared_bytes = static_cast<int>(s.sh_size);
  }
  elf.for_each_info([&](std::uint8_t attribute, std::uint32_t symbol, std::uint32_t value) {
    if (symbol >= symbols.size()) return;
    auto it = found.find(symbols[symbol]);
    if (it == found.end()) return;
    if (attribute == kRegisterCount) it->second.registers = static_cast<int>(value);
    if (attribute == kFrameSize) it->second.stack_bytes = static_cast<int>(value);
  });
  std::map<std::string, int> spills = spills_of(log);
  std::vector<KernelResources> out;
  for (auto& [name, resources] : found) {
    auto it = spills.find(name);
    if (it != spills.end()) resources.spill_bytes = it->second;
    out.push_back(resources);
  }
  return out;
}

}  // namespace tenon::codegen
