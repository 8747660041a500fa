#include "core/library_lock.h"

namespace dp_bench::core {

std::mutex& Hdf5Lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace dp_bench::core
