#include "measure/wire.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace tenon::measure {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kMagic = 0x544e5754;  // "TWNT"
// A message holds a batch of cubins; nothing comes near this.
constexpr std::uint64_t kMostBytes = 1ULL << 30;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t message = 0;
  std::uint64_t bytes = 0;
};

bool write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    ssize_t done = ::write(descriptor, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

bool read_all(int descriptor, char* data, std::size_t size) {
  while (size > 0) {
    ssize_t done = ::read(descriptor, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

void Writer::integer(std::int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void Writer::real(double value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void Writer::text(std::string_view value) {
  integer(static_cast<std::int64_t>(value.size()));
  bytes_.append(value);
}

std::string_view Reader::take(std::size_t size) {
  if (size > bytes_.size()) throw Malformed();
  std::string_view taken = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return taken;
}
std::int64_t Reader::integer() {
  std::int64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}
double Reader::real() {
  double value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}
std::string Reader::text() { return std::string(take(count(1))); }
std::size_t Reader::count(std::size_t least) {
  const std::int64_t value = integer();
  if (value < 0 || static_cast<std::uint64_t>(value) > bytes_.size() / least) throw Malformed();
  return static_cast<std::size_t>(value);
}
void Reader::end() const {
  if (!bytes_.empty()) throw Malformed();
}

void write(Writer& to, const ir::Workload& w) {
  to.text(ir::print(w.program));
  to.integer(static_cast<std::int64_t>(w.dtype));
  to.integer(static_cast<std::int64_t>(w.extents.size()));
  for (std::int64_t extent : w.extents) to.integer(extent);
  to.integer(static_cast<std::int64_t>(w.attributes.size()));
  for (const auto& [name, value] : w.attributes) {
    to.text(name);
    to.real(value);
  }
  to.integer(static_cast<std::int64_t>(w.row_strides.size()));
  for (const auto& [name, stride] : w.row_strides) {
    to.text(name);
    to.integer(stride);
  }
}

ir::Workload read_workload(Reader& from) {
  ir::Program program = ir::parse_program(from.text());
  const auto dtype = static_cast<ir::DType>(from.integer());
  const std::size_t extents = from.count(8);
  if (extents != program.signature.dims.size()) throw Malformed();
  std::map<std::string, std::int64_t> dims;
  for (std::size_t i = 0; i < extents; ++i) dims[program.signature.dims[i]] = from.integer();
  std::map<std::string, double> attributes;
  for (std::size_t i = from.count(16); i > 0; --i) {
    std::string name = from.text();
    attributes[name] = from.real();
  }
  ir::Workload workload = ir::make_workload(program, dims, dtype, attributes);
  for (std::size_t i = from.count(16); i > 0; --i) {
    std::string name = from.text();
    workload = ir::with_row_stride(std::move(workload), name, from.integer());
  }
  return workload;
}

void write(Writer& to, const Protocol& p) {
  to.integer(p.samples);
  to.real(p.min_sample_us);
  to.integer(p.dependent_launch);
  to.integer(p.rotate);
  to.real(p.hang_limit_s);
  to.real(p.idle_ms);
  to.integer(p.screening);
  to.real(p.drop_above_us);
}

Protocol read_protocol(Reader& from) {
  Protocol p;
  p.samples = static_cast<int>(from.integer());
  p.min_sample_us = from.real();
  p.dependent_launch = from.integer() != 0;
  p.rotate = from.integer() != 0;
  p.hang_limit_s = from.real();
  p.idle_ms = from.real();
  p.screening = from.integer() != 0;
  p.drop_above_us = from.real();
  return p;
}

void write(Writer& to, const Candidate& candidate) {
  to.text(ir::print(candidate.plan));
  to.integer(static_cast<std::int64_t>(candidate.cubins.size()));
  for (const std::string& cubin : candidate.cubins) to.text(cubin);
}

Candidate read_candidate(Reader& from) {
  Candidate candidate;
  candidate.plan = ir::parse_plan(from.text());
  for (std::size_t i = from.count(8); i > 0; --i) candidate.cubins.push_back(from.text());
  return candidate;
}

void write(Writer& to, const Timing& t) {
  to.integer(static_cast<std::int64_t>(t.status));
  to.text(t.reason);
  to.integer(static_cast<std::int64_t>(t.samples_us.size()));
  for (double sample : t.samples_us) to.real(sample);
  to.real(t.median_us);
  to.real(t.spread_us);
  to.text(t.protocol);
  to.text(t.disturbance);
  to.integer(t.not_run);
}

Timing read_timing(Reader& from) {
  Timing t;
  const std::int64_t status = from.integer();
  if (status < 0 || status > static_cast<std::int64_t>(Status::kUnsupported)) throw Malformed();
  t.status = static_cast<Status>(status);
  t.reason = from.text();
  for (std::size_t i = from.count(8); i > 0; --i) t.samples_us.push_back(from.real());
  t.median_us = from.real();
  t.spread_us = from.real();
  t.protocol = from.text();
  t.disturbance = from.text();
  t.not_run = from.integer() != 0;
  return t;
}

void write(Writer& to, const verifier::Evidence& e) {
  to.text(e.method);
  to.integer(static_cast<std::int64_t>(e.verdict));
  to.text(e.reason);
  to.text(e.figures);
  to.text(e.counterexample);
  to.real(e.seconds);
}

verifier::Evidence read_evidence(Reader& from) {
  verifier::Evidence e;
  e.method = from.text();
  const std::int64_t verdict = from.integer();
  if (verdict < 0 || verdict > static_cast<std::int64_t>(verifier::Verdict::kUnsupported))
    throw Malformed();
  e.verdict = static_cast<verifier::Verdict>(verdict);
  e.reason = from.text();
  e.figures = from.text();
  e.counterexample = from.text();
  e.seconds = from.real();
  return e;
}

bool send(int descriptor, Message message, const std::string& content) {
  Header header;
  header.message = static_cast<std::uint32_t>(message);
  header.bytes = content.size();
  return write_all(descriptor, reinterpret_cast<const char*>(&header), sizeof header) &&
         write_all(descriptor, content.data(), content.size());
}

bool receive(int descriptor, Frame& frame) {
  Header header;
  if (!read_all(descriptor, reinterpret_cast<char*>(&header), sizeof header)) return false;
  if (header.magic != kMagic || header.bytes > kMostBytes) throw Malformed();
  frame.message = static_cast<Message>(header.message);
  frame.content.resize(header.bytes);
  return read_all(descriptor, frame.content.data(), frame.content.size());
}

}  // namespace tenon::measure
