/* The C API of Tenon's runtime: launch tuned kernels on the hot path.
 *
 * Every function that can fail returns a tenon_status; tenon_last_error() then holds one
 * sentence for the calling thread. Handles are opaque. Pointers to data are addresses on
 * the library's device, and streams are CUstream (NULL: the default stream; ignored on the
 * host). A kernel may be launched from several threads; it is bound and closed by one. */
#ifndef TENON_RUNTIME_TENON_H_
#define TENON_RUNTIME_TENON_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_ABI_VERSION 1

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

typedef enum {
  TENON_OK = 0,
  TENON_NOT_FOUND = 1, /* nothing stored fits; the message says what is nearest */
  TENON_BAD_INPUT = 2,
  TENON_DEVICE_ERROR = 3,
  TENON_INTERNAL_ERROR = 4
} tenon_status;

typedef struct tenon_library tenon_library;
typedef struct tenon_kernel tenon_kernel;

TENON_API int tenon_abi_version(void);
/* Of the calling thread's last failure; valid until its next call. */
TENON_API const char* tenon_last_error(void);

/* Opens a tuning database (NULL: the default one) read-only for a device: "auto", "host", "cuda:N".
 */
TENON_API tenon_status tenon_library_open(const char* database, const char* device,
                                          tenon_library** out);
TENON_API void tenon_library_close(tenon_library* library);

/* Finds the fastest usable plan and makes it ready: `inputs` are the program's inputs in signature
 * order (entries of activations may be NULL); parameters are read by the prepare graph on `stream`
 * and, where the plan reads them, by launches. `dims` is "m=16,k=4096,n=6144", `dtype` "bf16",
 * "fp16" or "fp32", `dependent` nonzero asks for the plan tuned for dependent launch. */
TENON_API tenon_status tenon_bind(tenon_library* library, const char* program, const char* dims,
                                  const char* dtype, int dependent, const void* const* inputs,
                                  void* stream, tenon_kernel** out);
TENON_API void tenon_kernel_close(tenon_kernel* kernel);

/* One call with `m` rows; inputs and outputs in signature order. Asynchronous on CUDA. `dependent`
 * zero suppresses dependent launch for this call. m = 0 does nothing. */
TENON_API tenon_status tenon_launch(tenon_kernel* kernel, const void* const* inputs,
                                    void* const* outputs, int64_t m, void* stream, int dependent);

/* The plan that was bound: its number in the database, its stored time in microseconds, its
 * µGraph's label and its schedule. Valid until the kernel is closed. */
TENON_API int64_t tenon_kernel_plan(const tenon_kernel* kernel);
TENON_API double tenon_kernel_stored_time_us(const tenon_kernel* kernel);
TENON_API const char* tenon_kernel_label(const tenon_kernel* kernel);
TENON_API const char* tenon_kernel_schedule(const tenon_kernel* kernel);

#ifdef __cplusplus
}
#endif

#endif /* TENON_RUNTIME_TENON_H_ */
