/* open_device DEVICE: prints what opening a library on a device says. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(int argc, char** argv) {
  tenon_library* library = NULL;
  const tenon_status status = tenon_library_open("none.db", argc > 1 ? argv[1] : NULL, &library);
  printf("status %d: %s\n", (int)status, tenon_last_error());
  return 0;
}
