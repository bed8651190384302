/* Launches a stored kernel from C, on the host device:
 *   tenon optimize rmsnorm_linear --m 16 --k 576 --n 960 --dtype fp32 --device host
 *   c_api [DATABASE [K N]]
 * and checks one result by hand. With an installed Tenon: cc c_api.c $(pkg-config --cflags --libs tenon) -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static float* values(size_t count) {
  float* v = malloc(count * sizeof *v);
  for (size_t i = 0; v != NULL && i < count; ++i) v[i] = (float)((i * 7919) % 31) / 16 - 1;
  return v;
}

int main(int argc, char** argv) {
  const size_t m = 5, k = argc > 3 ? (size_t)atoi(argv[2]) : 576, n = argc > 3 ? (size_t)atoi(argv[3]) : 960;
  tenon_library* library = NULL;
  tenon_kernel* kernel = NULL;
  float *x = values(m * k), *g = values(k), *w = values(k * n), *y = values(m * n);
  if (!x || !g || !w || !y) return 1;

  if (tenon_library_open(argc > 1 ? argv[1] : NULL, "host", &library) != TENON_OK) {
    fprintf(stderr, "c_api: %s\n", tenon_last_error());
    return 1;
  }
  char dims[64];
  snprintf(dims, sizeof dims, "m=16,k=%zu,n=%zu", k, n); /* for 1 to 16 rows */
  const void* inputs[] = {NULL, g, w};                   /* x comes with each call */
  if (tenon_bind(library, "rmsnorm_linear", dims, "fp32", 0, inputs, NULL, &kernel) != TENON_OK) {
    fprintf(stderr, "c_api: %s\n", tenon_last_error());
    return 1;
  }
  if (tenon_launch_one(kernel, x, y, (int64_t)m, NULL, 0) != TENON_OK) {
    fprintf(stderr, "c_api: %s\n", tenon_last_error());
    return 1;
  }

  double squares = 0, sum = 0;
  const float* row = x + (m - 1) * k;
  for (size_t i = 0; i < k; ++i) {
    squares += (double)row[i] * row[i];
    sum += (double)row[i] * g[i] * w[i * n + n - 1];
  }
  const double want = sum / sqrt(squares / (double)k + 1e-6), got = y[m * n - 1];
  tenon_segment segment = {.size = sizeof segment};
  tenon_kernel_segment(kernel, (int64_t)m, &segment);
  printf("plan %lld (%s) serves %lld to %lld rows: last element %.6g, by hand %.6g\n", (long long)segment.plan,
         segment.label, (long long)segment.low, (long long)segment.high, got, want);
  tenon_kernel_close(kernel);
  tenon_library_close(library);
  free(x), free(g), free(w), free(y);
  return fabs(got - want) <= 1e-4 * (1 + fabs(want)) ? 0 : 1;
}
