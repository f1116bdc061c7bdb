// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/channel_error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre {
namespace {

const char* message_of(channel_errc code) noexcept {
  return code == channel_errc::closed ? "the channel was closed, and takes no more values"
                                      : "unknown error";
}

std::errc condition_of(channel_errc code) noexcept {
  return code == channel_errc::closed ? std::errc::broken_pipe : std::errc();
}

}  // namespace

const std::error_category& channel_error_category() noexcept {
  static const gyre::detail::enum_category<channel_errc> category("gyre.channel", message_of,
                                                                  condition_of);
  return category;
}

}  // namespace gyre
