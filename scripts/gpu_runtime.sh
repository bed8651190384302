#!/usr/bin/env bash
# gpu_runtime.sh [BUNDLE] [PART …]: on a machine with a GPU, everything of the runtime that needs one,
# from a bundle (default: the folder of this script, else .bundle), in about three minutes. Parts, all by
# default:
#   tune    optimizes the shapes that the other parts use (database $TENON_GPU_OUT/runtime.db)
#   tests   the tests of bound layers: every m, 16 threads on 16 streams, graphs, leaks
#   launch  launch overhead, C++ and Python; open and bind
#   block   the Llama-style block beside eager PyTorch and torch.compile
# Results go to the folder TENON_GPU_OUT. A part that fails is named and the others still run. Without
# PyTorch its parts are skipped, and said to be. Variables: TENON_BUDGET (seconds of tuning a shape,
# 20), TENON_SOAK_SECONDS (30), TENON_CYCLES (of open, bind, close: 10000), TENON_PEERS (modes of
# torch.compile, "default").
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${1:-}" ] && [ -d "$1" ]; then
  bundle=$1
  shift
elif [ -d "$here/bin" ]; then
  bundle=$here
else
  bundle=$here/../.bundle
fi
bundle=$(cd "$bundle" && pwd)
parts=${*:-tune tests launch block}
out=${TENON_GPU_OUT:-$(mktemp -d)}
mkdir -p "$out"
database=$out/runtime.db
natural=$out/natural.db # weights as nn.Linear keeps them
python=${PYTHON:-python3}
export PYTHONPATH=$bundle/python TENON_LIBRARY=$bundle/lib/libtenon_runtime.so TENON_COMMAND=$bundle/bin/tenon
failures=()

# part NAME TITLE COMMAND …: runs it when its part is asked for; its output also goes to a file.
part() {
  local name=$1 title=$2 log status
  shift 2
  case " $parts " in *" $name "*) ;; *) return 0 ;; esac
  log=$out/$(tr -c 'a-z0-9\n' '-' <<<"$title").log
  echo "--- $title"
  local begin=$SECONDS
  "$@" 2>&1 | tee "$log" | tail -n 40
  status=${PIPESTATUS[0]}
  # A test that did not run is no success.
  if [ "$status" -eq 0 ] && grep -q '\[  SKIPPED \]' "$log"; then status="0, but tests were skipped"; fi
  echo "--- $title: exit $status after $((SECONDS - begin)) s"
  [ "$status" = 0 ] || failures+=("$title")
}

has_torch() { "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }

# tune M K N EPS [OPTION …]
tune() {
  "$bundle/bin/tenon" optimize rmsnorm_linear --m "$1" --k "$2" --n "$3" --attribute "eps=$4" "${@:5}" --device cuda:0 \
    --db "$database" --budget "${TENON_BUDGET:-20}s" --top 3
}

"$bundle/bin/tenon" devices
part tune "tune 16x4096x6144" tune 16 4096 6144 1e-5
part tune "tune 16x4096x28672" tune 16 4096 28672 1e-5
part tune "tune 16x4096x6144 eps 1e-6" env TENON_BUDGET=8 bash -c "$(declare -f tune); bundle=$bundle database=$database; tune 16 4096 6144 1e-6"
part tune "tune 16x4096x6144 weights n,k" env TENON_BUDGET=8 bash -c "$(declare -f tune); bundle=$bundle database=$natural; tune 16 4096 6144 1e-6 --layout w=n,k"
part tests "tests of layers" env TENON_SOAK_SECONDS="${TENON_SOAK_SECONDS:-30}" TENON_CYCLES="${TENON_CYCLES:-10000}" \
  "$bundle/bin/tenon_gpu_tests" --gtest_filter='GpuLayer.*:CudaExecutable.*'
part launch "launch overhead c++" env TENON_LAUNCH_DB="$database" TENON_GPU_OUT="$out" "$bundle/bin/tenon_gpu_tests" --gtest_filter='LaunchOverhead.*'
if has_torch; then
  part launch "launch overhead python" "$python" "$bundle/bench/launch_overhead.py" --db "$database" --out "$out/launch_overhead_python.json"
  part tests "tests of tenon.torch" "$python" "$bundle/bench/torch_check.py" --db "$database"
  part tests "tests of tenon.torch weights n,k" "$python" "$bundle/bench/torch_check.py" --db "$natural" --natural
  part block "cuda graph example" "$python" "$bundle/examples/cuda_graph.py" --db "$database"
  part block "llama block" "$python" "$bundle/examples/llama_block.py" --db "$database" --peers "${TENON_PEERS-default}" \
    --must-win --out "$out/llama_block.json"
else
  case " $parts " in *" launch "* | *" block "* | *" tests "*) echo "SKIPPED: $python has no PyTorch with CUDA; its parts were not run" ;; esac
fi
if [ ${#failures[@]} -gt 0 ]; then
  printf 'gpu_runtime: FAILED: %s\n' "${failures[@]}"
  exit 1
fi
echo "gpu_runtime: all parts passed"
