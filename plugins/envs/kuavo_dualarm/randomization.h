// Domain randomization of properties that are constant within an episode: light, colours, cameras,
// friction and masses of the model. Perturbations are applied on top of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kuavo_model.h"
#include "params.h"

namespace dp_bench::kuavo_dualarm {

/// Varies a copy of a model. Every episode starts from the numbers of the original.
class ModelRandomizer {
 public:
  ModelRandomizer(std::shared_ptr<const KuavoModel> original,
                  const RandomizationParams& randomization, const PerturbationParams& perturbation);

  const KuavoModel& varied() const { return *varied_; }

  /// Draws the model of an episode. `data` belongs to the varied model; its contents are lost.
  void Draw(std::uint64_t seed, mjData& data);

 private:
  void Randomize(std::uint64_t seed, mjModel& model) const;
  void Perturb(std::uint64_t seed, mjModel& model) const;
  void DrawColours(RandomStream& random, mjModel& model) const;
  void DrawCameras(double position, double rotation, RandomStream& random, mjModel& model) const;
  void DrawFriction(double width, RandomStream& random, mjModel& model) const;
  void DrawMasses(RandomStream& random, mjModel& model) const;

  std::shared_ptr<const KuavoModel> original_;
  std::unique_ptr<KuavoModel> varied_;
  RandomizationParams params_;
  PerturbationParams perturbation_;
  std::vector<int> materials_;      // of floor, table and objects
  std::vector<int> touched_geoms_;  // of objects and pads
  std::vector<int> free_bodies_;
};

}  // namespace dp_bench::kuavo_dualarm
