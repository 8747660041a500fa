// What the caller of a controller observed: checked, and copied into the history.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "control/obs_history.h"
#include "dp_bench/deploy.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

/// Nothing allocates after construction, except errors.
class ObsInput {
 public:
  explicit ObsInput(std::span<const KeySpec> keys);

  /// Copies each key to its buffer `history->Next`, in one pass. Throws Error{kShape} unless `obs`
  /// has each key once with its dtype and shape, and Error{kNumeric} for NaN and Inf.
  void CopyTo(ObsHistory* history, std::span<const ObsView> obs);

 private:
  struct Key {
    KeySpec spec;
    Shape shape;           // in storage
    const ObsView* found;  // in the observation being copied
  };

  void Match(std::span<const ObsView> obs);
  [[noreturn]] void ThrowUnknown(std::string_view name) const;
  std::string Wanted() const;

  std::vector<Key> keys_;
};

}  // namespace dp_bench::control
