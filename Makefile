# The commands of Tenon. `make demo` and `make test` are all a newcomer needs; `make help` lists
# the rest. BUILD is the build folder, JOBS how many processes build and test at once.
BUILD ?= build
JOBS ?= $(shell nproc)
TYPE ?= Release
CCACHE := $(shell command -v ccache 2>/dev/null)
BASE ?= HEAD

.DEFAULT_GOAL := help
# One goal after another: each recipe uses all of JOBS itself.
.NOTPARALLEL:
.PHONY: help deps configure build demo test format check-format tidy check-docs \
  check-dependencies soak wheel package bundle gpu-tests gpu-soak gpu-sanitize bench clean

help: ## lists the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## installs (as root) or checks what Tenon is built with
	@scripts/deps.sh build

configure: deps ## configures the build folder with CMake
	@mkdir -p $(BUILD)
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=$(TYPE) -DTENON_QUICK_BUILD=ON \
	  $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE) -DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE)) \
	  $(CMAKE_ARGS) >$(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }

build: configure ## builds everything
	@cmake --build $(BUILD) --parallel $(JOBS)

# --force: a machine that has just built this is rarely quiet enough for times that may decide.
demo: configure ## optimizes one real shape on the host: SmolLM2-135M's qkv projection, 16 tokens
	@cmake --build $(BUILD) --parallel $(JOBS) --target cli/tenon
	$(BUILD)/cli/tenon optimize rmsnorm_linear --m 16 --k 576 --n 960 --device host --db $(BUILD)/demo.db --force

test: build ## builds and runs every test; those that need a GPU are skipped, and counted, without one
	@scripts/test.sh $(BUILD) $(TEST_ARGS)

format: ## formats the sources (clang-format 14)
	@scripts/format.sh

check-format: ## fails when a source is not formatted
	@scripts/format.sh --check

tidy: configure ## clang-tidy over the files that differ from BASE (default: HEAD)
	@scripts/deps.sh build tidy >/dev/null
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/tidy.sh $(BASE)

check-docs: ## checks that the paths, commands and flags that README and docs name exist
	@python3 scripts/check_docs.py --tenon $(BUILD)/cli/tenon

check-dependencies: ## checks that includes and links follow docs/architecture.md
	@python3 scripts/check_dependencies.py --build $(BUILD)

soak: configure ## long tests: generated databases, kills, many processes
	@cmake --build $(BUILD) --parallel $(JOBS) --target soak

wheel: build ## the wheel of the Python package, in build/wheel
	@scripts/wheel.sh $(BUILD)

package: build ## a .deb with the command, the runtime library and the Python package, in build
	@cd $(BUILD) && cpack -G DEB

bundle: build ## a relocatable folder .bundle with the command, the GPU tests and their libraries
	@scripts/deps.sh build bundle >/dev/null
	@scripts/bundle.sh $(BUILD)

gpu-tests: bundle ## the GPU tests and the GPU commands, on a machine with a GPU
	@scripts/gpu_tests.sh .bundle

gpu-soak: bundle ## wrong CUDA sources against numeric acceptance, on a machine with a GPU (2 min)
	@TENON_GPU_SOAK=1 .bundle/bin/tenon_gpu_tests --gtest_filter='mutation_on_gpu.*'

gpu-sanitize: bundle ## a short selection of the GPU tests under compute-sanitizer
	@scripts/gpu_sanitize.sh .bundle

bench: build ## Tenon beside its peers on a GPU (needs PyTorch; BENCH_ARGS: see bench/compare.py --help)
	python3 bench/compare.py --tenon $(BUILD)/cli/tenon --library $(BUILD)/runtime/libtenon_runtime.so \
	  --db $(BUILD)/bench.db --out $(BUILD)/bench.json $(BENCH_ARGS)

clean: ## removes what was built; .deps stays
	rm -rf $(BUILD) .bundle
