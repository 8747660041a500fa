// The classes BatchOptions, EnvBatch and Rows of the extension modules, whose functions make
// batches.
#pragma once

#include <nanobind/nanobind.h>

#include "env_batch.h"

namespace dp_bench::python {

/// Also registers the errors: ValueError for what the caller passed, else RuntimeError.
void BindBatch(nanobind::module_& m);

}  // namespace dp_bench::python
