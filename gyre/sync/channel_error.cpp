// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/channel_error.hpp>

#include <string>

namespace gyre {
namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "gyre.channel"; }
  std::string message(int error) const override {
    return error == static_cast<int>(channel_errc::closed)
               ? "the channel was closed, and takes no more values"
               : "unknown error";
  }
  std::error_condition default_error_condition(int error) const noexcept override {
    if (error != static_cast<int>(channel_errc::closed)) return {error, *this};
    return std::make_error_condition(std::errc::broken_pipe);
  }
};

}  // namespace

const std::error_category& channel_error_category() noexcept {
  static const category only;
  return only;
}

}  // namespace gyre
