// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/time_limit_error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre {
namespace {

const char* message_of(time_limit_errc code) noexcept {
  return code == time_limit_errc::expired ? "the time limit expired" : "unknown error";
}

std::errc condition_of(time_limit_errc code) noexcept {
  return code == time_limit_errc::expired ? std::errc::timed_out : std::errc();
}

}  // namespace

const std::error_category& time_limit_category() noexcept {
  static const gyre::detail::enum_category<time_limit_errc> category("gyre.time_limit", message_of,
                                                                     condition_of);
  return category;
}

}  // namespace gyre
