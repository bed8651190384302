// tenon_worker: runs candidates for a tenon that started it.
#include "measure/worker.h"

int main() { return tenon::measure::serve(tenon::runtime::open_device); }
