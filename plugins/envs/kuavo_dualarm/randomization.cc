#include "randomization.h"

#include <dp_bench/error.h>

#include <algorithm>
#include <array>

namespace dp_bench::kuavo_dualarm {
namespace {

/// What the robot acts on and the room it stands in; not the robot itself.
constexpr std::array<const char*, 7> kMaterials = {"floor", "table", "tray",     "object",
                                                   "goal",  "scale", "cardboard"};
constexpr double kDirectionPerLight = 0.5;  // of a light's unit direction

/// Uniform in [-1, 1).
double Symmetric(RandomStream& random) { return 2.0 * random.UniformDouble() - 1.0; }

void Restore(const mjModel& from, mjModel& to) {
  // mj_copyModel would do, but it allocates
  std::copy_n(from.light_diffuse, 3 * from.nlight, to.light_diffuse);
  std::copy_n(from.light_dir, 3 * from.nlight, to.light_dir);
  to.vis.headlight = from.vis.headlight;
  std::copy_n(from.mat_rgba, 4 * from.nmat, to.mat_rgba);
  std::copy_n(from.cam_pos, 3 * from.ncam, to.cam_pos);
  std::copy_n(from.cam_quat, 4 * from.ncam, to.cam_quat);
  std::copy_n(from.geom_friction, 3 * from.ngeom, to.geom_friction);
  std::copy_n(from.body_mass, from.nbody, to.body_mass);
  std::copy_n(from.body_inertia, 3 * from.nbody, to.body_inertia);
}

}  // namespace

ModelRandomizer::ModelRandomizer(std::shared_ptr<const KuavoModel> original,
                                 const RandomizationParams& params)
    : original_(std::move(original)), varied_(original_->Copy()), params_(params) {
  const mjModel& model = *original_->model();
  for (const char* name : kMaterials) {
    const int material = mj_name2id(&model, mjOBJ_MATERIAL, name);
    if (material >= 0) materials_.push_back(material);
  }
  for (int joint = 0; joint < model.njnt; ++joint) {
    if (model.jnt_type[joint] == mjJNT_FREE) free_bodies_.push_back(model.jnt_bodyid[joint]);
  }
  for (int geom = 0; geom < model.ngeom; ++geom) {
    const int body = model.geom_bodyid[geom];
    if (std::find(free_bodies_.begin(), free_bodies_.end(), body) != free_bodies_.end()) {
      touched_geoms_.push_back(geom);
    }
  }
  for (const Side side : kSides) {
    for (const int pad : original_->arm(side).pad_geom) touched_geoms_.push_back(pad);
  }
}

void ModelRandomizer::Draw(std::uint64_t seed, mjData& data) {
  mjModel& model = *varied_->mutable_model();
  Restore(*original_->model(), model);
  // always in this order, whatever is switched on, so that one switch does not move another's draws
  RandomStream random(seed, StreamId::kEnvStart, 1);
  DrawLight(random, model);
  DrawColours(random, model);
  DrawCameras(random, model);
  DrawFriction(random, model);
  DrawMasses(random, model);
  mj_setConst(&model, &data);  // what derives from the masses
}

void ModelRandomizer::DrawLight(RandomStream& random, mjModel& model) const {
  const auto dim = [&](float* rgb) {
    const auto factor = static_cast<float>(1.0 + params_.light * Symmetric(random));
    std::transform(rgb, rgb + 3, rgb, [&](float value) { return factor * value; });
  };
  dim(model.vis.headlight.ambient);
  dim(model.vis.headlight.diffuse);
  for (int light = 0; light < model.nlight; ++light) {
    dim(model.light_diffuse + 3 * light);
    double* const direction = model.light_dir + 3 * light;
    for (int axis = 0; axis < 3; ++axis) {
      direction[axis] += kDirectionPerLight * params_.light * Symmetric(random);
    }
    mju_normalize3(direction);
  }
}

void ModelRandomizer::DrawColours(RandomStream& random, mjModel& model) const {
  const auto share = static_cast<float>(params_.colours);
  for (const int material : materials_) {
    float* const rgba = model.mat_rgba + 4 * material;
    for (int channel = 0; channel < 3; ++channel) {
      rgba[channel] += share * (random.Uniform() - rgba[channel]);
    }
  }
}

void ModelRandomizer::DrawCameras(RandomStream& random, mjModel& model) const {
  const CameraIds& cameras = varied_->cameras();
  for (const int camera : {cameras.head, cameras.wrist[0], cameras.wrist[1]}) {
    std::array<double, 3> rotation = {};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      model.cam_pos[3 * camera + static_cast<int>(axis)] +=
          params_.camera_position * Symmetric(random);
      rotation[axis] = params_.camera_rotation * Symmetric(random);
    }
    mju_quatIntegrate(model.cam_quat + 4 * camera, rotation.data(), 1.0);
  }
}

void ModelRandomizer::DrawFriction(RandomStream& random, mjModel& model) const {
  const double factor = 1.0 + params_.friction * Symmetric(random);
  for (const int geom : touched_geoms_) model.geom_friction[3 * geom] *= factor;
}

void ModelRandomizer::DrawMasses(RandomStream& random, mjModel& model) const {
  for (const int body : free_bodies_) {
    const double factor = 1.0 + params_.mass * Symmetric(random);
    model.body_mass[body] *= factor;
    for (int axis = 0; axis < 3; ++axis) model.body_inertia[3 * body + axis] *= factor;
  }
}

}  // namespace dp_bench::kuavo_dualarm
