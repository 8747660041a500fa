// Suppressed reports about Mesa, LLVM, cairo and ZeroMQ, which were compiled without the
// sanitizers: threads, atomics and locks that the thread sanitizer misreads, and memory that LLVM
// allocates with its own operator new and frees in another way. Threads in cairo pass small objects
// to each other through a pool without locks.

extern "C" const char* __asan_default_options();
extern "C" const char* __tsan_default_suppressions();

const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }

const char* __tsan_default_suppressions() {
  return "called_from_lib:swrast_dri.so\n"
         "called_from_lib:libgallium\n"
         "called_from_lib:libLLVM\n"
         "race:swrast_dri.so\n"
         "race:libgallium\n"
         "race:libcairo.so\n"
         "called_from_lib:libzmq.so\n"
         "race:libzmq.so\n"
         "mutex:libgcc_s.so\n"
         "deadlock:libgcc_s.so\n";
}
