// The binary interface of dp_bench_mujoco, on top of core_layout.cc. See README.md.
#include "dp_bench/mujoco/model.h"
#include "dp_bench/mujoco/renderer.h"
#include "layout.h"

using namespace dp_bench;

int main() {
  DPB_TYPE(mujoco::ModelPtr);
  DPB_TYPE(mujoco::DataPtr);
  DPB_TYPE(mujoco::LogScope);
  DPB_TYPE(mujoco::RenderSettings);
  DPB_FIELD(mujoco::RenderSettings, shadow_size);
  DPB_FIELD(mujoco::RenderSettings, samples);
  DPB_FIELD(mujoco::RenderSettings, slices);
  DPB_TYPE(mujoco::DepthRange);
  DPB_FIELD(mujoco::DepthRange, min_mm);
  DPB_FIELD(mujoco::DepthRange, max_mm);
  DPB_TYPE(mujoco::Tile);
  DPB_FIELD(mujoco::Tile, left);
  DPB_FIELD(mujoco::Tile, top);
  DPB_FIELD(mujoco::Tile, right);
  DPB_FIELD(mujoco::Tile, bottom);
  DPB_TYPE(mujoco::Renderer);
}
