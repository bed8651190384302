// The prepare graph on the host.
#include <vector>

#include "ir/error.h"
#include "runtime/host/block.h"
#include "runtime/host/block_program.h"
#include "runtime/host/execute.h"

namespace tenon::runtime::host {

class PrepareProgram::Impl {
 public:
  Impl(const ir::MuGraph& graph, ir::DType elem) : dims_(graph.signature.dims.size()) {
    const ir::Graph& g = graph.prepare.graph;
    std::vector<Place> places;
    std::vector<ir::ValueId> nodes;
    for (ir::ValueId v = 0; v < g.value_count(); ++v) {
      if (!g.is_input(v)) {
        nodes.push_back(v);
        continue;
      }
      std::size_t t = 0;
      while (graph.tensors[t].name != g.inputs()[static_cast<std::size_t>(v)].name) ++t;
      int slot =
          add_slot(frame_, graph.tensors[t].axes, ir::bind(graph.tensors[t].dtype, elem), true);
      tensors_.push_back({static_cast<ir::TensorId>(t), slot, ir::kNoValue});
      places.push_back({Place::kSlot, slot});
    }
    std::vector<Export> exports;
    for (const ir::BlockOutput& o : graph.prepare.outputs) {
      const ir::Tensor& tensor = graph.tensors[static_cast<std::size_t>(o.tensor)];
      int slot = add_slot(frame_, tensor.axes, ir::bind(tensor.dtype, elem), true);
      tensors_.push_back({o.tensor, slot, o.value});
      exports.push_back({o.value, slot});
    }
    steps_ = compile(frame_, g, nodes, places, exports, {}, elem);
  }

  void run(const BlockLaunch& launch) const {
    AxisExtents extents;
    extents.resize(dims_);
    for (std::size_t d = 0; d < dims_; ++d)
      extents.of({static_cast<ir::DimId>(d), ir::kFull}) = (*launch.extents)[d];
    std::vector<Bound> slots(frame_.slots.size());
    std::vector<std::vector<float>> tiles(frame_.slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      std::int64_t stride = 1;
      for (std::size_t a = frame_.slots[i].axes.size(); a-- > 0;) {
        slots[i].stride[a] = stride;
        stride *= extents.of(frame_.slots[i].axes[a]);
      }
      slots[i].elements = stride;
      if (frame_.slots[i].external) continue;
      tiles[i].resize(static_cast<std::size_t>(stride));
      slots[i].data = reinterpret_cast<std::byte*>(tiles[i].data());
    }
    for (const TensorSlot& t : tensors_)
      slots[static_cast<std::size_t>(t.slot)].data = launch.tensors[t.tensor];
    std::vector<float> constants;
    for (const ir::Constant& c : frame_.constants)
      constants.push_back(launch.domain->constant(c, *launch.extents));
    run_parallel(steps_, {&kernels(), &frame_, slots.data(), constants.data(), &extents, nullptr});
  }

 private:
  std::size_t dims_;
  Frame frame_;
  std::vector<TensorSlot> tensors_;
  Steps steps_;
};

PrepareProgram::PrepareProgram(const ir::MuGraph& graph, ir::DType elem)
    : impl_(std::make_unique<Impl>(graph, elem)) {}
PrepareProgram::~PrepareProgram() = default;
void PrepareProgram::run(const BlockLaunch& launch) const { impl_->run(launch); }

}  // namespace tenon::runtime::host
