// A client's message to a policy server, in each protocol: the first byte chooses it.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// How clients may talk to the server.
struct Served {
  std::unique_ptr<serve::Protocol> protocol;
  serve::KeyMap keys;
  wire::Map metadata;
};

std::vector<Served> AllServed() {
  std::vector<Served> all;
  for (const bool resizes : {false, true}) {
    for (const char* const name : {"openpi", "vla_eval", "starvla", "groot"}) {
      Served served{.protocol = serve::MakeProtocol(name, /*api_key=*/"")};
      served.keys = served.protocol->DefaultKeys(ServedSpec());
      if (resizes) {
        served.keys.obs[0].size = {2, 3};
        served.keys.obs[0].is_channels_first = true;
      }
      served.metadata = serve::Metadata({.name = "fuzz", .spec = ServedSpec(), .micro_batch = 1},
                                        served.keys, *served.protocol);
      all.push_back(std::move(served));
    }
  }
  return all;
}

void TakeIn(const Served& served, const wire::Message& message) {
  serve::ClientRequest request;
  served.protocol->Read(message, served.metadata, &request);
  static control::ObsInput input(ServedSpec().shape_meta.obs);
  static control::ObsHistory history(ServedSpec().shape_meta.obs, 2);
  for (const wire::Map& map : request.observations) {
    const serve::Observations observations(served.keys, map);
    for (std::size_t row = 0; row < observations.n_rows(); ++row) {
      for (std::size_t step = 0; step < observations.n_steps(); ++step) {
        input.CopyTo(&history, observations.At(row, step));
        history.Push();
      }
    }
  }
  const serve::ClientAnswer answer{.shape = {2, 1}, .actions = {1.0F, 2.0F}};
  const std::array<serve::ClientAnswer, 1> answers = {answer};
  served.protocol->Reply(request, answers, {}, "actions", wire::ArrayForm::kOpenPi);
  served.protocol->Refuse(request, serve::Refusal::kBadRequest, "text");
}

}  // namespace

DPB_FUZZ(input) {
  const std::string text(input.text());
  if (text.empty()) return;
  static const std::vector<Served> all = AllServed();
  const Served& served = all[static_cast<unsigned char>(text[0]) % all.size()];
  constexpr std::int64_t kMaxPixels = 4096;
  fuzz::Accepts([&] {
    TakeIn(served, wire::Read(std::make_shared<const std::string>(text.substr(1)), kMaxPixels));
  });
}
