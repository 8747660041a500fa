// A message, which is written in each form and read again.
#include <memory>
#include <string>

#include "../support/wire_values.h"
#include "fuzz.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  wire::Message message;
  if (!fuzz::Accepts([&] { message = wire::ReadBytes(std::string(input.text())); })) return;
  wire::Describe(message.value);
  for (const wire::ArrayForm form : {wire::ArrayForm::kOpenPi, wire::ArrayForm::kVlaEval,
                                     wire::ArrayForm::kMsgpackNumpy, wire::ArrayForm::kNpy}) {
    const wire::Message again = wire::ReadBytes(wire::Write(message.value, form));
    DPB_ASSERT(wire::AreSame(again.value, message.value));
  }
}
