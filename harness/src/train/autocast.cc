// See autocast.h.
#include "train/autocast.h"

#include <ATen/autocast_mode.h>

namespace dp_bench::train {

std::optional<torch::ScalarType> ProductType(MixedPrecision precision) {
  switch (precision) {
    case MixedPrecision::kBf16:
      return torch::kBFloat16;
    case MixedPrecision::kFp16:
      return torch::kFloat16;
    case MixedPrecision::kNo:
      break;
  }
  return std::nullopt;
}

Autocast::Autocast(torch::DeviceType device, MixedPrecision precision)
    : device_(device),
      is_on_(precision != MixedPrecision::kNo),
      was_on_(at::autocast::is_autocast_enabled(device)),
      type_before_(at::autocast::get_autocast_dtype(device)) {
  if (!is_on_) return;
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *ProductType(precision));
}

Autocast::~Autocast() {
  if (!is_on_) return;
  // the converted weights belong to this step only
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_on_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

}  // namespace dp_bench::train
