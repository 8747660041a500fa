// How the parameters of a network are divided among its modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>

#include "train/step_memory.h"

namespace dp_bench::train {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

std::shared_ptr<torch::nn::Module> Container(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

// model.{pos_emb [7], decoder.layers.{0, 1}: Linear(2, 3), activation, head: Linear(3, 1)}
std::shared_ptr<torch::nn::Module> SmallNetwork() {
  auto root = std::make_shared<torch::nn::Module>();
  const auto model = Container(*root, "model");
  model->register_parameter("pos_emb", torch::zeros({7}));
  const auto layers = Container(*Container(*model, "decoder"), "layers");
  for (const char* name : {"0", "1"}) layers->register_module(name, torch::nn::Linear(2, 3));
  model->register_module("activation", torch::nn::ReLU());
  model->register_module("head", torch::nn::Linear(3, 1));
  return root;
}

TEST(ModuleSizes, AddUpToTheirParent) {
  EXPECT_THAT(ModuleSizes(*SmallNetwork(), /*n_levels=*/3),
              ElementsAre(FieldsAre("model", 0, 29), FieldsAre("pos_emb", 1, 7),
                          FieldsAre("decoder.layers", 1, 18), FieldsAre("0", 2, 9),
                          FieldsAre("1", 2, 9), FieldsAre("head", 1, 4)));
  EXPECT_EQ(NumParameters(*SmallNetwork()), 29);
}

TEST(ModuleSizes, StopAtTheLastLevel) {
  EXPECT_THAT(ModuleSizes(*SmallNetwork(), /*n_levels=*/1), ElementsAre(FieldsAre("model", 0, 29)));
}

TEST(ModuleSizes, ListTheParametersOfANetworkWithoutModules) {
  torch::nn::Module root;
  root.register_parameter("naction", torch::zeros({2}));
  EXPECT_THAT(ModuleSizes(root, /*n_levels=*/3), ElementsAre(FieldsAre("naction", 0, 2)));
}

}  // namespace
}  // namespace dp_bench::train
