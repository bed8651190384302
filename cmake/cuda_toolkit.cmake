# CUDA is used for its headers only (cuda.h, nvrtc.h, cublasLt.h); driver, NVRTC and
# cuBLASLt are opened at run time, so that every binary starts on a machine without them.
# scripts/find_cuda.sh says where the toolkit is looked for; TENON_CUDA_ROOT, compiled in, is
# where NVRTC and cuBLASLt are looked for first.
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/find_cuda.sh
  OUTPUT_VARIABLE TENON_CUDA_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT TENON_CUDA_ROOT)
  message(FATAL_ERROR "CUDA 12 or later is missing; run make deps, or set CUDA_HOME")
endif()
message(STATUS "CUDA: ${TENON_CUDA_ROOT}")
add_library(tenon_cuda_headers INTERFACE)
target_include_directories(tenon_cuda_headers SYSTEM INTERFACE ${TENON_CUDA_ROOT}/include)
target_compile_definitions(tenon_cuda_headers INTERFACE TENON_CUDA_ROOT="${TENON_CUDA_ROOT}")
