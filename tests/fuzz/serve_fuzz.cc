// A client's message to a policy server, in each protocol: the first byte chooses it.
#include <array>
#include <memory>
#include <string>

#include "control/obs_history.h"
#include "control/obs_input.h"
#include "fuzz.h"
#include "serve/observations.h"
#include "serve/protocol.h"

using namespace dp_bench;

namespace {

const PolicySpec& ServedSpec() {
  static const PolicySpec spec{.shape_meta = {.obs = {{.name = "image",
                                                       .type = KeyType::kRgb,
                                                       .shape = {3, 1, 2},
                                                       .dtype = DType::kUInt8},
                                                      {.name = "pos", .shape = {2}}},
                                              .action = {.name = "action", .shape = {1}}},
                               .horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2}};
  return spec;
}

const wire::Map& ServedMetadata(const serve::KeyMap& keys) {
  static const wire::Map metadata =
      serve::Metadata({.name = "fuzz", .spec = ServedSpec(), .micro_batch = 1}, keys);
  return metadata;
}

void TakeIn(const serve::Protocol& protocol, const wire::Message& message) {
  const serve::KeyMap keys = protocol.DefaultKeys(ServedSpec());
  const serve::ClientRequest request = protocol.Read(message, ServedMetadata(keys));
  control::ObsInput input(ServedSpec().shape_meta.obs);
  control::ObsHistory history(ServedSpec().shape_meta.obs, 2);
  for (const wire::Map& map : request.observations) {
    const serve::Observations observations(keys, map);
    for (std::size_t row = 0; row < observations.n_rows(); ++row) {
      for (std::size_t step = 0; step < observations.n_steps(); ++step) {
        input.CopyTo(&history, observations.At(row, step));
        history.Push();
      }
    }
  }
  const serve::ClientAnswer answer{.shape = {2, 1}, .actions = {1.0F, 2.0F}};
  const std::array<serve::ClientAnswer, 1> answers = {answer};
  protocol.Reply(request, answers, {}, "actions", wire::ArrayForm::kOpenPi);
  protocol.Refuse(request.id, serve::Refusal::kBadRequest, "text");
}

}  // namespace

DPB_FUZZ(input) {
  const std::string text(input.text());
  if (text.empty()) return;
  static const std::array<std::unique_ptr<serve::Protocol>, 4> protocols = {
      serve::MakeOpenPi(), serve::MakeVlaEval(), serve::MakeStarVla(), serve::MakeGroot("")};
  const serve::Protocol& protocol = *protocols[static_cast<unsigned char>(text[0]) % 4];
  fuzz::Accepts(
      [&] { TakeIn(protocol, wire::Read(std::make_shared<const std::string>(text.substr(1)))); });
}
