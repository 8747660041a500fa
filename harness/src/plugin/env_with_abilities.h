// The base of envs that offer the abilities of a spec.
#pragma once

#include <utility>

#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"

namespace dp_bench::plugin {

/// Implements every ability itself and offers those that its spec declares.
class EnvWithAbilities : public Env,
                         protected StateAccess,
                         protected Expert,
                         protected PointerControl,
                         protected CameraAccess,
                         protected PictureMarks {
 public:
  const EnvSpec& spec() const final { return spec_; }

  StateAccess* state_access() final { return spec_.abilities.state_size > 0 ? this : nullptr; }
  Expert* expert() final { return spec_.abilities.has_expert ? this : nullptr; }
  PointerControl* pointer_control() final {
    return spec_.abilities.has_pointer_control ? this : nullptr;
  }
  CameraAccess* camera_access() final { return spec_.abilities.cameras.empty() ? nullptr : this; }
  PictureMarks* picture_marks() final { return spec_.abilities.n_marks > 0 ? this : nullptr; }

 protected:
  explicit EnvWithAbilities(EnvSpec spec) : spec_(std::move(spec)) {}

 private:
  const EnvSpec spec_;
};

}  // namespace dp_bench::plugin
