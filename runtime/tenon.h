/* The C API of Tenon's runtime: launch tuned kernels on the hot path.
 *
 * Every function that can fail returns a tenon_status; tenon_last_error() then holds one
 * sentence of UTF-8 for the calling thread. Handles are opaque; a NULL handle is TENON_BAD_INPUT,
 * and functions without a status give 0 or NULL for it and set the message. Pointers to data are
 * addresses on the library's device, and streams are CUstream (NULL: the default stream; ignored on
 * the host). A kernel may be launched from several threads and on several streams at once; it is
 * closed by one, after its launches have ended. A stream that launches kernels is destroyed
 * after its work has ended. */
#ifndef TENON_RUNTIME_TENON_H_
#define TENON_RUNTIME_TENON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function or struct changes meaning; the shared library's name has it too. Functions
 * and, at their ends, structs may be added without. */
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
  TENON_DEVICE_ERROR = 3, /* the device or its driver is missing, too old, or failed */
  TENON_INTERNAL_ERROR = 4
} tenon_status;

typedef struct tenon_library tenon_library;
typedef struct tenon_kernel tenon_kernel;

TENON_API int tenon_abi_version(void);
/* "0.1.0" */
TENON_API const char* tenon_version(void);
/* Of the calling thread's last failure; valid until its next call. */
TENON_API const char* tenon_last_error(void);

/* Opens a tuning database (NULL: the default one; "" is an error) read-only for a device: "auto"
 * (NULL too), "host", "cuda:N". A folder without write permission serves. */
TENON_API tenon_status tenon_library_open(const char* database, const char* device,
                                          tenon_library** out);
/* The same for a packed database (`tenon db pack`) in memory, as tenon_embed (CMake) puts it there;
 * it is copied. `name` stands for the file's name in messages. */
TENON_API tenon_status tenon_library_open_bytes(const void* bytes, size_t size, const char* name,
                                                const char* device, tenon_library** out);
/* Kernels bound from it stay valid. */
TENON_API void tenon_library_close(tenon_library* library);
/* "cuda:0", "host"; valid until the library is closed. */
TENON_API const char* tenon_library_device(const tenon_library* library);

typedef struct {
  size_t size;            /* sizeof(tenon_bind_options) */
  int64_t m_min;          /* fewer rows are never launched; 0 means 1 */
  int dependent;          /* nonzero: plans tuned for dependent launch */
  int exclusive;          /* nonzero: the caller promises that launches of exclusive kernels on one
                             device never overlap (one stream, or ordered by events and graphs).
                             Only then plans that need the device to themselves are used */
  int no_vendor_library;  /* nonzero: no plan with a product by cuBLASLt */
  const char* attributes; /* "eps=1e-05"; NULL: the program's own */
  /* "w=n,k": the order in which the axes of an input lie in memory, the last one contiguous;
     several separated by ';'. NULL: the program's own, "w=k,n". Another layout is another workload,
     stored by `tenon optimize --layout`; TENON_NOT_FOUND where there is none. */
  const char* layouts;
  /* nonzero: only plans that read the weights where they are, and keep no copy of them in another
     form (repacked, or with a norm's scale folded in); stored by `tenon optimize --keep-weights` */
  int keep_weights;
  /* "x=640,y=1024": elements between the rows of activations and outputs that do not lie one behind
     the other; launches are given such tensors. NULL: rows lie one behind the other. Other strides
     are another workload, stored by `tenon optimize --row-stride` */
  const char* row_strides;
} tenon_bind_options;

/* Binds a program to weights, for every number of rows from options->m_min to the m in `dims`:
 * looks up which stored plan serves which m, loads these plans and runs their prepare step on
 * `stream`, which must not be capturing. On return the weights are ready for every stream.
 *
 * `program` is a catalog name or a program in the text form; `dims` "m=16,k=4096,n=6144"; `dtype`
 * "bf16", "fp16" or "fp32"; `options` may be NULL. `inputs`: the program's inputs in signature
 * order (entries of activations may be NULL). A parameter must stay where it is, and as it is,
 * while tenon_kernel_reads() says so; the others are released: their memory may be freed or reused
 * once this has returned. */
TENON_API tenon_status tenon_bind_with(tenon_library* library, const char* program,
                                       const char* dims, const char* dtype,
                                       const tenon_bind_options* options, const void* const* inputs,
                                       void* stream, tenon_kernel** out);
/* tenon_bind_with where only `dependent` is not its default. */
TENON_API tenon_status tenon_bind(tenon_library* library, const char* program, const char* dims,
                                  const char* dtype, int dependent, const void* const* inputs,
                                  void* stream, tenon_kernel** out);
TENON_API void tenon_kernel_close(tenon_kernel* kernel);

/* One call with `m` rows; inputs and outputs in signature order, contiguous and row-major but for
 * the rows that options->row_strides put apart, whose gaps are neither read nor written (entries of
 * parameters may be NULL: those given to bind are meant). Asynchronous on CUDA, and legal while
 * `stream` is captured. `dependent` zero suppresses dependent launch for this call; the first
 * launch after binding is never a dependent one. m = 0 does nothing. */
TENON_API tenon_status tenon_launch(tenon_kernel* kernel, const void* const* inputs,
                                    void* const* outputs, int64_t m, void* stream, int dependent);
/* The same for programs whose only activation is their first input and that have one output. */
TENON_API tenon_status tenon_launch_one(tenon_kernel* kernel, const void* x, void* y, int64_t m,
                                        void* stream, int dependent);

/* A program's inputs and outputs as JSON, valid until the thread's next call: {"program": …,
 * "dims":
 * ["m", …], "attributes": {"eps": 1e-06}, "inputs": [{"name": "x", "role": "activation", "dtype":
 * "T", "axes": ["m", "k"]}, …], "outputs": […]}. NULL for a program that is not known or malformed.
 */
TENON_API const char* tenon_program_signature(const char* program);

/* Nonzero where launches read parameter number `input` (in signature order). */
TENON_API int tenon_kernel_reads(const tenon_kernel* kernel, int input);
/* The rows it serves. */
TENON_API int64_t tenon_kernel_m_min(const tenon_kernel* kernel);
TENON_API int64_t tenon_kernel_m_max(const tenon_kernel* kernel);
/* What there is to say of the choice ("stale: measured with …"); "" when nothing. */
TENON_API const char* tenon_kernel_note(const tenon_kernel* kernel);

typedef struct {
  size_t size;       /* sizeof(tenon_segment), set by the caller */
  int64_t low, high; /* the rows, inclusive, that one plan serves */
  int64_t chunk;     /* 0; else no plan is valid here and calls are cut into this many rows */
  int64_t plan;      /* its number in the database */
  int64_t tuned_m;   /* the rows it was tuned for */
  double time_us;    /* its stored time there */
  const char* label; /* of its µGraph; these two are valid until the kernel is closed */
  const char* schedule;
} tenon_segment;
/* What serves `m` rows. */
TENON_API tenon_status tenon_kernel_segment(const tenon_kernel* kernel, int64_t m,
                                            tenon_segment* out);

/* The plan that serves the largest m: its number, its stored time in microseconds, its µGraph's
 * label and its schedule. Valid until the kernel is closed. */
TENON_API int64_t tenon_kernel_plan(const tenon_kernel* kernel);
TENON_API double tenon_kernel_stored_time_us(const tenon_kernel* kernel);
TENON_API const char* tenon_kernel_label(const tenon_kernel* kernel);
TENON_API const char* tenon_kernel_schedule(const tenon_kernel* kernel);

/* For the Python package: one operator of PyTorch, tenon::layer(Tensor x, int layer, int columns)
 * -> Tensor, implemented here over PyTorch's C functions, which are looked up in the process. The
 * operator must have been defined; TENON_NOT_FOUND where PyTorch is not loaded or lacks them. */
TENON_API tenon_status tenon_torch_register(void);
typedef struct {
  int32_t dtype, device_type, device_index; /* of x: at::ScalarType, at::DeviceType */
  int32_t dependent;
  int64_t columns_in, columns_out; /* last extents of x and of the result */
} tenon_torch_layer;
/* What operator calls with this number launch, and what they must be given: 0 <= layer < 65536.
 * A NULL kernel: nothing any more. Calls with the number must not be in flight. */
TENON_API tenon_status tenon_torch_set_layer(int64_t layer, tenon_kernel* kernel,
                                             const tenon_torch_layer* expected);

#ifdef __cplusplus
}
#endif

#endif /* TENON_RUNTIME_TENON_H_ */
