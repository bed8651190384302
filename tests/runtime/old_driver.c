/* A libcuda.so.1 of long ago: it has cuInit and little else. */
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)(flags & 0); }
