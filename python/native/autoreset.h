// When a vector env resets the envs whose episodes ended.
#pragma once

namespace dp_bench::python {

/// gymnasium.vector.AutoresetMode.
enum class Autoreset { kNextStep, kSameStep, kDisabled };

}  // namespace dp_bench::python
