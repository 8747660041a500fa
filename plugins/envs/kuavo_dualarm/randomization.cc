#include "randomization.h"

#include <algorithm>
#include <array>
#include <span>

namespace dp_bench::kuavo_dualarm {
namespace {

/// The objects of the task and the room, without the robot.
constexpr std::array<const char*, 7> kMaterials = {"floor", "table", "tray",     "object",
                                                   "goal",  "scale", "cardboard"};
constexpr double kDirectionPerLight = 0.5;  // of a light's unit direction

/// Streams of kEnvStart: one for the whole randomization, and one for each perturbation, because
/// perturbations are switched on one at a time.
constexpr std::uint64_t kModelDraws = 1;
constexpr std::uint64_t kLightPerturbation = 3;
constexpr std::uint64_t kCameraPerturbation = 4;
constexpr std::uint64_t kFrictionPerturbation = 5;

/// Half widths at strength 1.
constexpr double kPerturbedLight = 0.6;
constexpr double kPerturbedPosition = 0.02;  // [m]
constexpr double kPerturbedRotation = 0.05;  // [rad]
constexpr double kPerturbedFriction = 0.5;

/// Uniform in [-1, 1).
double Symmetric(RandomStream& random) { return 2.0 * random.UniformDouble() - 1.0; }

void Restore(const mjModel& from, mjModel& to) {
  // mj_copyModel would work too, but it allocates
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

void DrawLight(double width, RandomStream& random, mjModel& model) {
  const auto dim = [&](float* rgb) {
    const auto factor = static_cast<float>(1.0 + width * Symmetric(random));
    std::transform(rgb, rgb + 3, rgb, [&](float value) { return factor * value; });
  };
  dim(model.vis.headlight.ambient);
  dim(model.vis.headlight.diffuse);
  for (int light = 0; light < model.nlight; ++light) {
    dim(model.light_diffuse + 3 * light);
    double* const direction = model.light_dir + 3 * light;
    for (int axis = 0; axis < 3; ++axis) {
      direction[axis] += kDirectionPerLight * width * Symmetric(random);
    }
    mju_normalize3(direction);
  }
}

}  // namespace

ModelRandomizer::ModelRandomizer(std::shared_ptr<const KuavoModel> original,
                                 const RandomizationParams& randomization,
                                 const PerturbationParams& perturbation)
    : original_(std::move(original)),
      varied_(original_->Copy()),
      params_(randomization),
      perturbation_(perturbation) {
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
  if (params_.ChangesModel()) {
    Randomize(seed, model);
    mj_setConst(&model, &data);  // updates what derives from the masses
  }
  Perturb(seed, model);
}

void ModelRandomizer::Randomize(std::uint64_t seed, mjModel& model) const {
  // always draws in this order, so that enabling one does not shift another's draws
  RandomStream random(seed, StreamId::kEnvStart, kModelDraws);
  DrawLight(params_.light, random, model);
  DrawColours(random, model);
  DrawCameras(params_.camera_position, params_.camera_rotation, random, model);
  DrawFriction(params_.friction, random, model);
  DrawMasses(random, model);
}

void ModelRandomizer::Perturb(std::uint64_t seed, mjModel& model) const {
  // disabled ones keep every bit
  if (perturbation_.light > 0.0) {
    RandomStream random(seed, StreamId::kEnvStart, kLightPerturbation);
    DrawLight(perturbation_.light * kPerturbedLight, random, model);
  }
  if (perturbation_.camera > 0.0) {
    RandomStream random(seed, StreamId::kEnvStart, kCameraPerturbation);
    DrawCameras(perturbation_.camera * kPerturbedPosition,
                perturbation_.camera * kPerturbedRotation, random, model);
  }
  if (perturbation_.friction > 0.0) {
    RandomStream random(seed, StreamId::kEnvStart, kFrictionPerturbation);
    DrawFriction(perturbation_.friction * kPerturbedFriction, random, model);
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

void ModelRandomizer::DrawCameras(double position, double rotation, RandomStream& random,
                                  mjModel& model) const {
  for (const int camera : std::span(varied_->cameras()).first(kRobotCameras.size())) {
    std::array<double, 3> turn = {};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      model.cam_pos[3 * camera + static_cast<int>(axis)] += position * Symmetric(random);
      turn[axis] = rotation * Symmetric(random);
    }
    mju_quatIntegrate(model.cam_quat + 4 * camera, turn.data(), 1.0);
  }
}

void ModelRandomizer::DrawFriction(double width, RandomStream& random, mjModel& model) const {
  const double factor = 1.0 + width * Symmetric(random);
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
