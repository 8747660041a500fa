// What the extension modules share: arrays, frames and errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "dp_bench/env.h"
#include "dp_bench/error.h"

namespace dp_bench::python {

template <class T, class Rank>
using NumpyArray = nanobind::ndarray<T, Rank, nanobind::c_contig, nanobind::device::cpu>;
using Image = NumpyArray<std::uint8_t, nanobind::shape<-1, -1, 3>>;

/// Draws into an array with a function that takes an RgbImage*.
template <class Draw>
void RenderInto(const Image& image, const Draw& draw) {
  RgbImage frame(static_cast<int>(image.shape(1)), static_cast<int>(image.shape(0)));
  draw(&frame);
  std::ranges::copy(frame.pixels, image.data());
}

/// An exception translator: ValueError for what the caller passed, else RuntimeError.
inline void TranslateError(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    const bool is_bad_value =
        code == ErrorCode::kShape || code == ErrorCode::kNumeric || code == ErrorCode::kConfig;
    PyErr_SetString(is_bad_value ? PyExc_ValueError : PyExc_RuntimeError, error.what());
  }
}

}  // namespace dp_bench::python
