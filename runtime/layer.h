// A program bound to weights: launches for any number of rows up to a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/database.h"
#include "ir/workload.h"
#include "runtime/device.h"
#include "runtime/dispatch.h"

namespace tenon::runtime {

struct BindOptions {
  std::int64_t m_min = 1;  // fewer rows will not be launched (0 always may)
  bool dependent = false;  // plans tuned for dependent launch
  // The caller promises that launches of exclusive layers on one device never overlap (one
  // stream, or ordered by events and graphs). Otherwise plans that need the device to themselves
  // (runtime/residence.h) are passed over, and launches may overlap in any way.
  bool exclusive = false;
  bool allow_library = true;  // plans with a product by the vendor's library
};

class Layer {
 public:
  static constexpr std::size_t kMaxArguments = 64;  // inputs, and outputs, of a program

  // One executable for each plan of the table, ready to launch. Row bytes of activations and
  // outputs, in signature order, are what a chunk advances by (0 for parameters).
  Layer(DispatchTable table, std::vector<std::unique_ptr<Executable>> executables,
        std::vector<std::size_t> input_row_bytes, std::vector<std::size_t> output_row_bytes);

  // One call. `inputs` in signature order; entries of parameters may be null: those given to bind
  // are meant. m = 0 does nothing. Takes no lock, allocates nothing once a stream has launched
  // before, and may be captured. Throws UserError for an m out of bounds and for an activation or
  // output that is null, DeviceError.
  void launch(const void* const* inputs, void* const* outputs, std::int64_t m, StreamHandle stream,
              bool dependent);

  std::int64_t m_min() const { return table_.segments.front().low; }
  std::int64_t m_max() const { return table_.segments.back().high; }
  const Segment& segment(std::int64_t m) const;  // throws UserError
  const cache::Stored& plan(const Segment& segment) const { return table_.plans[segment.plan]; }
  const std::vector<Segment>& segments() const { return table_.segments; }
  const std::string& note() const { return table_.note; }
  std::size_t input_count() const { return input_row_bytes_.size(); }
  std::size_t output_count() const { return output_row_bytes_.size(); }
  // Is the first input the only activation, and is there one output?
  bool takes_one() const { return takes_one_; }
  // Does some launch read this parameter? Where not, the caller may free it after bind.
  bool reads(std::size_t input) const;

 private:
  void launch_chunks(const void* const* inputs, void* const* outputs, std::int64_t m,
                     std::int64_t chunk, StreamHandle stream, bool dependent);

  DispatchTable table_;
  std::vector<std::unique_ptr<Executable>> executables_;
  std::vector<std::size_t> input_row_bytes_, output_row_bytes_;
  bool takes_one_ = false;
};

// A database for one device, and the code of the plans that were bound from it.
class Library {
 public:
  // `path` empty: the default database. Throws UserError, DeviceError.
  static std::unique_ptr<Library> open(const std::string& path, const std::string& device);
  // A packed database in memory, which is copied (Database::open_packed).
  static std::unique_ptr<Library> open_bytes(const void* bytes, std::size_t size,
                                             const std::string& name, const std::string& device);

  const DeviceInfo& device() const { return device_->info(); }

  // Binds `workload` for every m from options.m_min to the workload's own. `inputs`: addresses on
  // the device in signature order, activations may be null. Runs the prepare step on `stream` and
  // returns when it has ended: launches on every stream may follow. Null, with `why`, where
  // nothing stored fits. Not legal while `stream` is being captured. Throws UserError,
  // DeviceError. May be called from several threads.
  std::unique_ptr<Layer> bind(const ir::Workload& workload, const BindOptions& options,
                              const std::vector<const void*>& inputs, StreamHandle stream,
                              std::string& why);

 private:
  Library(std::unique_ptr<cache::Database> database, std::unique_ptr<Device> device)
      : device_(std::move(device)), database_(std::move(database)) {}
  std::unique_ptr<Executable> executable(const cache::Stored& stored);

  std::unique_ptr<Device> device_;
  std::unique_ptr<cache::Database> database_;
  std::mutex mutex_;  // of what follows; never taken by a launch
  std::map<std::int64_t, std::unique_ptr<Executable>> loaded_;  // by plan
};

}  // namespace tenon::runtime
