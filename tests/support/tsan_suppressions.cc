// What the thread sanitizer must not report: Mesa and LLVM draw with threads, atomics and locks
// that were compiled without it, so it misreads them.

extern "C" const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "called_from_lib:swrast_dri.so\n"
         "called_from_lib:libgallium\n"
         "called_from_lib:libLLVM\n"
         "race:swrast_dri.so\n"
         "race:libgallium\n"
         "mutex:libgcc_s.so\n"
         "deadlock:libgcc_s.so\n";
}
