// What crosses the pipes between a runner and its worker, as bytes: little-endian numbers, strings
// and lists with their length before them. Both ends are the same build; still, a candidate may
// have scribbled over its worker's memory, so that what comes back is read with every length
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/measure.h"

namespace tenon::measure {

// Bytes that make no message.
class Malformed : public std::runtime_error {
 public:
  Malformed() : std::runtime_error("the worker's answer makes no sense") {}
};

class Writer {
 public:
  void integer(std::int64_t value);
  void real(double value);
  void text(std::string_view value);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws Malformed.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t integer();
  double real();
  std::string text();
  // A length of things of `least` bytes each, which must be there.
  std::size_t count(std::size_t least);
  void end() const;  // nothing may be left

 private:
  std::string_view take(std::size_t size);
  std::string_view bytes_;
};

enum class Message : std::uint32_t {
  kOpen = 1,     // device id, workload → kOpened
  kTime,         // protocol, candidates → kTimings
  kAccept,       // candidate, seed, hang limit → kEvidence
  kOpened = 16,  //
  kTimings,      // lost?, timings
  kEvidence,     // lost?, evidence
  kFailed,       // a Failure and a sentence
};
enum class Failure : std::uint8_t { kUser, kDevice, kInternal };

void write(Writer& to, const ir::Workload& workload);
void write(Writer& to, const Protocol& protocol);
void write(Writer& to, const Candidate& candidate);
void write(Writer& to, const Timing& timing);
void write(Writer& to, const verifier::Evidence& evidence);
// These also throw UserError where a text inside does not parse.
ir::Workload read_workload(Reader& from);
Protocol read_protocol(Reader& from);
Candidate read_candidate(Reader& from);
Timing read_timing(Reader& from);
verifier::Evidence read_evidence(Reader& from);

// One message over a pipe: a header of 16 bytes, then the content.
struct Frame {
  Message message = Message::kFailed;
  std::string content;
};
// Blocking; false when the other end is gone.
bool send(int descriptor, Message message, const std::string& content);
// Blocking; false when the other end is gone. Throws Malformed.
bool receive(int descriptor, Frame& frame);

}  // namespace tenon::measure
